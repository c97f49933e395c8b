"""vLLM: reads the directory as it is. Rules from its sources, and a trial where it is installed."""

from nextok.conversion.engines.engine import Answer, Engine, Request
from nextok.conversion.engines.findings import Finding
from nextok.interop.fields import family_of
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer

CPU_HEAD_WIDTHS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256)
"""For which its attention on a CPU is compiled."""


def rules(config: ModelConfig, tokenizer: Tokenizer | None) -> list[Finding]:
    """Returns what vLLM does with a model."""
    family, reason = family_of(config)
    if family == "nextok":
        return [Finding("will not load", reason)]
    if config.d_head not in CPU_HEAD_WIDTHS:
        on_gpu = config.d_head % 8 == 0 and config.d_head <= CPU_HEAD_WIDTHS[-1]
        sentence = (
            f"vLLM on a CPU has attention for head widths {', '.join(map(str, CPU_HEAD_WIDTHS))}, and this model has "
            f"d_head = {config.d_head}. {'FlashAttention on a GPU takes it.' if on_gpu else 'FlashAttention has not.'}"
        )
        return [Finding("will not load", sentence)]
    sentence = f"vLLM has the {family} of transformers, and attention for head width {config.d_head}."
    return [Finding("works", sentence)]


def answer(request: Request) -> list[Answer]:
    """Returns what vLLM writes with float32 arithmetic."""
    import vllm  # noqa: PLC0415 - an optional package

    model = vllm.LLM(
        model=request["path"],
        dtype="float32",
        enforce_eager=True,
        max_model_len=request["context"],
        skip_tokenizer_init=any(prompt["text"] is None for prompt in request["prompts"]),
    )
    greedy = vllm.SamplingParams(temperature=0.0, max_tokens=request["new_tokens"], logprobs=0)
    prompts = [
        {"prompt_token_ids": prompt["ids"]} if prompt["text"] is None else {"prompt": prompt["text"]}
        for prompt in request["prompts"]
    ]
    answers: list[Answer] = []
    for done in model.generate(prompts, greedy):
        chosen = done.outputs[0]
        told = [step[each].logprob for each, step in zip(chosen.token_ids, chosen.logprobs, strict=True)]
        answers.append({"prompt_tokens": len(done.prompt_token_ids), "ids": list(chosen.token_ids), "logprobs": told})
    return answers


VLLM = Engine(
    name="vllm",
    modules=("vllm",),
    format="hf",
    rules=rules,
    answer="nextok.conversion.engines.vllm:answer",
)
