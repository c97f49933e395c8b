"""What the tests of GGUF files share: texts, weights, our continuation, and llama.cpp's."""

import json
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from nextok.decode import SamplingConfig, generate
from nextok.interop.stored import StoredModel
from nextok.model import TorchDecoder, filled
from nextok.spec import ModelConfig, parameter_shapes

TEXTS = [
    "",
    "Once upon a time, there's a 12345 67 cat.",
    "  lead  two\n\n\nnew\tline \r\n end  ",
    "héllo ñ 日本語 🙂👩‍👩‍👧 Ω≈ç",
    "don't I'LL we'Ve 3.14 $5+<=>^~|",
    "<|endoftext|> <s> </s>",
    "x" * 50 + " " * 17 + "y",
    "1234567890 ١٢٣ ½ Ⅷ",
    "\u00a0no break\u2028line\u3000wide",
    "def f(x):\n    return x  # ok\n",
]


def weights_for(config: ModelConfig, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns weights that all matter, for a model that is rarely in doubt about its next token."""
    generator = np.random.default_rng(seed)
    weights = {}
    for name, shape in parameter_shapes(config).items():
        drawn = generator.standard_normal(shape, dtype=np.float32)
        gain = "norm" in name and name.endswith("weight")
        weights[name] = 1 + 0.1 * drawn if gain else (1.0 if name == "embed.tokens.weight" else 0.3) * drawn
    return weights


def continued(stored: StoredModel, prompt: str, n: int) -> tuple[list[int], str]:
    """Returns ids and text of our greedy continuation."""
    decoder = TorchDecoder(filled(stored.config, stored.arrays))
    options = SamplingConfig(temperature=0, max_new_tokens=n)
    ids = stored.tokenizer.encode_prompt(prompt)
    generation = generate(decoder, stored.tokenizer, [ids], options)[0][0]
    return list(generation.ids), generation.text


class LlamaCpp:
    """llama.cpp on one thread with a float32 cache, so that it rounds as little as it can."""

    def __init__(self, path: Path) -> None:
        engine = pytest.importorskip("xllamacpp", reason="needs llama.cpp (pip install xllamacpp)")
        params = engine.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel, params.warmup, params.verbosity = 256, 1, False, -1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.cache_type_k = params.cache_type_v = engine.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = engine.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._server = engine.Server(params)

    def ids(self, text: str, *, start: bool = False) -> list[int]:
        return self._ask("/tokenize", content=text, add_special=start, parse_special=False)["tokens"]

    def continued(self, prompt: str, n: int) -> tuple[list[int], str]:
        answer = self._ask(
            "/completion", prompt=prompt, n_predict=n, temperature=0, return_tokens=True, cache_prompt=False
        )
        return answer["tokens"], answer["content"]

    def logprobs(self, prompt: str, n: int) -> dict[int, float]:
        """Returns the log-probabilities of the likeliest next ids."""
        answer = self._ask("/completion", prompt=prompt, n_predict=1, temperature=0, n_probs=n, cache_prompt=False)
        return {each["id"]: each["logprob"] for each in answer["completion_probabilities"][0]["top_logprobs"]}

    def _ask(self, where: str, **body: object) -> dict:
        request = urllib.request.Request(
            self._server.listening_address + where, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
