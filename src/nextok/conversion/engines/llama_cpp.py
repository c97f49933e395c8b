"""llama.cpp: reads GGUF. Rules, and a trial through the package xllamacpp, which brings llama.cpp as it is built.

Its own converter takes every GPT-2 for one with the tanh GELU and a feed-forward width of 4 d_model; the rules here are
those for files that nextok writes, which say what the model has.
"""

import urllib.request

from nextok.conversion.engines.engine import Answer, Engine, Prompt, Request
from nextok.conversion.engines.findings import Finding
from nextok.errors import InputError
from nextok.files import from_json, to_json
from nextok.interop.gguf_fields import gguf_family
from nextok.interop.gguf_tokenizer_out import written_gguf_tokenizer
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer


def rules(config: ModelConfig, tokenizer: Tokenizer | None) -> list[Finding]:
    """Returns what llama.cpp does with a model, by way of the GGUF file that nextok writes."""
    if tokenizer is None:
        return [Finding("will not load", "A GGUF file cannot do without a tokenizer, and there is none.")]
    try:
        family = gguf_family(config)
        _, notes = written_gguf_tokenizer(tokenizer)
    except InputError as error:
        return [Finding("will not load", error.message)]
    known_end = tokenizer.end_of_text is not None or tokenizer.kind != "bpe"  # else token 11 ends a text there
    found = [Finding("works" if known_end else "loads but differs", note) for note in notes]
    return [Finding("works", f"llama.cpp computes the {family} that the GGUF file describes."), *found]


def answer(request: Request) -> list[Answer]:
    """Returns what llama.cpp writes."""
    import xllamacpp  # noqa: PLC0415 - an optional package

    options = xllamacpp.CommonParams()
    options.model.path = request["path"]
    options.n_ctx = request["context"]
    options.n_parallel = 1
    options.cpuparams.n_threads = 1
    options.warmup = False
    options.fit_params = False
    # By default it rounds attention and its cache to float16, which would hide differences below 1e-3.
    options.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    options.cache_type_k = options.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server = xllamacpp.Server(options)
    return [_continue(server.listening_address, prompt, request["new_tokens"]) for prompt in request["prompts"]]


def _continue(address: str, prompt: Prompt, new_tokens: int) -> Answer:
    """Asks the server in this process: its completions of the OpenAI kind leave out tokens of half a character."""
    given = prompt["ids"] if prompt["text"] is None else prompt["text"]
    wanted = {"prompt": given, "n_predict": new_tokens, "temperature": 0, "n_probs": 1, "return_tokens": True}
    question = urllib.request.Request(
        f"{address}/completion", to_json(wanted).encode("utf-8"), {"Content-Type": "application/json"}
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy would not find this machine
    with direct.open(question) as response:
        done = from_json(response.read())
    told = [step["logprob"] for step in done.get("completion_probabilities", [])]
    ids = done["tokens"]
    return {
        "prompt_tokens": done["tokens_evaluated"],
        "ids": ids,
        "logprobs": told if len(told) == len(ids) else [],  # none are told of half a character
    }


LLAMA_CPP = Engine(
    name="llama.cpp",
    modules=("xllamacpp",),
    format="gguf",
    rules=rules,
    answer="nextok.conversion.engines.llama_cpp:answer",
    tolerance=1e-2,  # its GELU is a table in float16: 7e-4 for a GPT-2 of 124M parameters
)
