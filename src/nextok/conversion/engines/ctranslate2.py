"""CTranslate2: converts the directory with its `TransformersConverter`, then runs what that wrote. Rules and a trial.

The rules were found by converting a model of each kind with CTranslate2 4.8 and comparing its logits.
"""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from nextok.conversion.engines.engine import Answer, Engine, Request
from nextok.conversion.engines.findings import Finding
from nextok.decode import token_logprob
from nextok.interop.fields import family_of
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer

_GPT2_EPS = 1e-5  # its converter for GPT-2 passes no epsilon on


def rules(config: ModelConfig, tokenizer: Tokenizer | None) -> list[Finding]:
    """Returns what CTranslate2 does with a model."""
    family, reason = family_of(config)
    if family == "nextok":
        return [Finding("will not load", reason)]
    found = _tokenizer_rules(config, tokenizer)
    if config.mlp == "relu2":
        found.append(Finding("will not load", "CTranslate2 has no squared ReLU."))
    if family == "gpt2" and config.norm_eps != _GPT2_EPS:
        sentence = f"CTranslate2 normalises a GPT-2 with eps = {_GPT2_EPS:g}; this model has {config.norm_eps:g}."
        found.append(Finding("loads but differs", sentence))
    if family == "llama" and config.d_head * config.n_heads != config.d_model:
        assumed = f"d_model / n_heads = {config.d_model} / {config.n_heads}"
        sentence = (
            f"CTranslate2 takes {assumed} for the head width of a Llama; this model has d_head = {config.d_head}."
        )
        found.append(Finding("loads but differs", sentence))
    return found or [Finding("works", f"CTranslate2 converts the {family} of transformers exactly.")]


def _tokenizer_rules(config: ModelConfig, tokenizer: Tokenizer | None) -> list[Finding]:
    if tokenizer is None:
        return [Finding("will not load", "CTranslate2's converter needs the tokenizer, and there is none.")]
    found = []
    if tokenizer.end_of_text is None:
        sentence = (
            "This vocabulary has no end of text, for which CTranslate2's converter writes null, which CTranslate2 then "
            'refuses. Put "" for each null in the config.json that it wrote.'
        )
        found.append(Finding("will not load", sentence))
    if config.vocab_size > tokenizer.vocab_size and config.position == "learned":
        rows = f"{config.vocab_size} embedding rows for {tokenizer.vocab_size} tokens"
        sentence = f"CTranslate2's converter refuses {rows}; nextok export --to hf cuts them off."
        found.append(Finding("will not load", sentence))
    return found


def answer(request: Request) -> list[Answer]:
    """Returns what CTranslate2 writes with float32 arithmetic."""
    import ctranslate2  # noqa: PLC0415 - an optional package
    import transformers  # noqa: PLC0415 - which the converter needs too

    spell = transformers.AutoTokenizer.from_pretrained(request["path"]).convert_ids_to_tokens
    with tempfile.TemporaryDirectory() as folder:
        ctranslate2.converters.TransformersConverter(request["path"]).convert(folder, force=True)
        generator = ctranslate2.Generator(folder, device="cpu", compute_type="float32")
        return [_continue(generator, spell, prompt["ids"], request["new_tokens"]) for prompt in request["prompts"]]


def _continue(generator: Any, spell: Callable[[list[int]], Any], ids: list[int], new_tokens: int) -> Answer:
    done = generator.generate_batch(
        [spell(ids)], max_length=new_tokens, sampling_topk=1, include_prompt_in_result=False
    )
    chosen = [int(each) for each in done[0].sequences_ids[0]]
    logits_TV = np.array(generator.forward_batch([spell(ids + chosen)]), dtype=np.float32)[0]
    told = [token_logprob(logits_TV[place], each) for place, each in enumerate(chosen, start=len(ids) - 1)]
    return {"prompt_tokens": len(ids), "ids": chosen, "logprobs": told}


CTRANSLATE2 = Engine(
    name="ctranslate2",
    modules=("ctranslate2", "transformers"),
    format="hf",
    rules=rules,
    answer="nextok.conversion.engines.ctranslate2:answer",
)
