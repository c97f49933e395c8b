"""A model with its tokenizer, ready to use from Python: what `nextok.load` returns.

m = nextok.load("runs/shakespeare")
m.logits("ROMEO:")                      # float32 [time, vocab]
m.generate("ROMEO:", temperature=0.8).text
m.trace("ROMEO:", ["blocks.0.attn.pattern"])
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy.typing import NDArray

from nextok import config as options
from nextok.checkpoint import RunDirectory
from nextok.decode import Event, Generation, SamplingConfig, generate, stream
from nextok.errors import ConfigError
from nextok.interop import load_model
from nextok.model import GPT, TorchDecoder
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer, Unknown, check_fits

Prompt = str | Sequence[int] | NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model and the tokenizer it was trained with.

    A prompt is text or ids. `unknown` says what becomes of a character of the text that a vocabulary of characters does
    not have: an `error`, `drop` it, or `replace` it by a mark that the vocabulary has.
    """

    model: GPT
    tokenizer: Tokenizer | None
    """None where the folder has none; then prompts are ids."""

    @property
    def config(self) -> ModelConfig:
        """Returns what the model is."""
        return self.model.config

    def ids(self, prompt: Prompt, *, unknown: Unknown = "error") -> Int64[np.ndarray, " T"]:
        """Returns the ids of a text, with nothing added; ids come back as they are.

        Raises:
            ConfigError: for text where there is no tokenizer.
            UnknownCharacterError: for a character the vocabulary does not have, unless `unknown` lets it pass.
        """
        if not isinstance(prompt, str):
            return np.asarray(prompt, dtype=np.int64)
        if self.tokenizer is None:
            raise ConfigError("This model has no tokenizer.json.", "Give the prompt as token ids.")
        return self.tokenizer.encode(prompt, unknown=unknown)

    def logits(self, prompt: Prompt, *, unknown: Unknown = "error") -> Float32[np.ndarray, "T V"]:
        """Returns the logits of the next token after every token of the prompt.

        Raises:
            InputError: if the prompt is empty or longer than the context.
        """
        with torch.inference_mode():
            return self.model(self._batch(prompt, unknown))[0].float().cpu().numpy()

    def generate(self, prompt: Prompt, *, unknown: Unknown = "error", **sampling: Any) -> Generation:
        """Returns one continuation of the prompt; keywords are the fields of `nextok.decode.SamplingConfig`.

        Raises:
            ConfigError: for an option that does not fit, n above 1 among them.
            PromptError: if the prompt cannot be served.
        """
        if sampling.get("n", 1) != 1:
            raise ConfigError(f"generate returns one continuation, not n = {sampling['n']}.", "Call generate_all.")
        return self.generate_all([prompt], unknown=unknown, **sampling)[0][0]

    def generate_all(
        self, prompts: Sequence[Prompt], *, n_slots: int = 4, unknown: Unknown = "error", **sampling: Any
    ) -> list[list[Generation]]:
        """Returns `n` continuations of each prompt, `n_slots` at a time; each is what it would be alone."""
        config = _sampling(sampling)
        prompt_ids = [self.ids(prompt, unknown=unknown) for prompt in prompts]
        decoder = TorchDecoder(self.model, max(1, min(n_slots, len(prompts) * config.n)))
        return generate(decoder, self.tokenizer, prompt_ids, config)

    def stream(
        self,
        prompt: Prompt,
        *,
        choice: int = 0,
        explain: bool = False,
        unknown: Unknown = "error",
        **sampling: Any,
    ) -> Iterator[Event]:
        """Yields one continuation token by token; with `explain`, each with how it was chosen."""
        config, prompt_ids = _sampling(sampling), self.ids(prompt, unknown=unknown)
        decoder = TorchDecoder(self.model)
        return stream(decoder, self.tokenizer, prompt_ids, config, choice=choice, explain=explain)

    def trace(
        self, prompt: Prompt, names: Sequence[str], *, unknown: Unknown = "error"
    ) -> dict[str, NDArray[np.float32]]:
        """Returns the values at the named hook points for one prompt, without the batch axis.

        Raises:
            ConfigError: for a name this model has not; patterns such as `blocks.*.attn.pattern` are names too.
        """
        with torch.inference_mode():
            found = self.model.trace(self._batch(prompt, unknown), names)
        return {name: value[0].float().cpu().numpy() for name, value in found.items()}

    def _batch(self, prompt: Prompt, unknown: Unknown) -> torch.Tensor:
        device = self.model.embed.tokens.weight.device
        return torch.from_numpy(self.ids(prompt, unknown=unknown)).to(device)[None]


def load(path: str | Path) -> LoadedModel:
    """Returns the model in a run directory or any directory transformers reads, on the CPU, ready to generate.

    Raises:
        CheckpointError: if there is no model at the path, or it cannot be read.
    """
    folder = Path(path)
    model = load_model(folder)
    vocabulary = RunDirectory(folder).tokenizer
    tokenizer = Tokenizer.load(vocabulary) if vocabulary.is_file() else None
    if tokenizer is not None:
        check_fits(tokenizer, model.config.vocab_size)
    return LoadedModel(model, tokenizer)


def _sampling(values: dict[str, Any]) -> SamplingConfig:
    return options.from_mapping(SamplingConfig, values, "sampling")
