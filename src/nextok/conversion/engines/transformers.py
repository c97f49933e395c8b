"""transformers: reads the directory as it is. Rules and a trial through `AutoModelForCausalLM` and `AutoTokenizer`."""

from nextok.conversion.engines.engine import Answer, Engine, Request
from nextok.conversion.engines.findings import Finding
from nextok.interop.fields import family_of
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer


def rules(config: ModelConfig, tokenizer: Tokenizer | None) -> list[Finding]:
    """Returns what transformers does with a model."""
    family, reason = family_of(config)
    if family == "nextok":
        return [Finding("will not load", reason)]
    found = [Finding("works", f"The model is exactly the {family} of transformers.")]
    if tokenizer is None:
        found.append(Finding("works", "There is no tokenizer beside it: give token ids."))
    return found


def answer(request: Request) -> list[Answer]:
    """Returns what transformers writes."""
    import torch  # noqa: PLC0415 - in the child process alone
    import transformers  # noqa: PLC0415 - an optional package

    model = transformers.AutoModelForCausalLM.from_pretrained(request["path"], dtype=torch.float32).eval()
    answers: list[Answer] = []
    for prompt in request["prompts"]:
        ids = prompt["ids"]
        if prompt["text"] is not None:
            ids = transformers.AutoTokenizer.from_pretrained(request["path"])(prompt["text"])["input_ids"]
        given = torch.tensor([ids])
        with torch.inference_mode():
            whole = model.generate(
                given,
                attention_mask=torch.ones_like(given),
                do_sample=False,
                max_new_tokens=request["new_tokens"],
                pad_token_id=0,
            )
            logprobs_TV = torch.log_softmax(model(whole).logits[0].float(), dim=-1)
        chosen = whole[0, len(ids) :]
        told = logprobs_TV[len(ids) - 1 : -1].gather(1, chosen[:, None])[:, 0]
        answers.append({"prompt_tokens": len(ids), "ids": chosen.tolist(), "logprobs": told.tolist()})
    return answers


TRANSFORMERS = Engine(
    name="transformers",
    modules=("transformers",),
    format="hf",
    rules=rules,
    answer="nextok.conversion.engines.transformers:answer",
)
