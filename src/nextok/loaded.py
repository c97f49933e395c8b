"""A model with its tokenizer, ready to use from Python: what `nextok.load` returns.

m = nextok.load("runs/shakespeare")
m.logits("ROMEO:")                      # float32 [time, vocab]
m.generate("ROMEO:", temperature=0.8).text
m.trace("ROMEO:", ["blocks.0.attn.pattern"])
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float32, Int64
from numpy.typing import NDArray

from nextok import config as options
from nextok import machine
from nextok.backends import Backend, Measured, fastest
from nextok.decode import (
    Beam,
    BeamConfig,
    Decoder,
    Event,
    Generation,
    ModelDrafter,
    NgramDrafter,
    SamplingConfig,
    Speculation,
    beam_search,
    generate,
    stream,
)
from nextok.engine import NumbaDecoder, PackedModel, Precision, pack_model
from nextok.errors import ConfigError
from nextok.interop import StoredModel, open_runnable
from nextok.packing import find_packed
from nextok.tokenizer import Tokenizer, Unknown

if TYPE_CHECKING:
    from nextok.model import GPT

Prompt = str | Sequence[int] | NDArray[np.integer]
Guesser: TypeAlias = "Literal['ngram'] | LoadedModel"
"""Who guesses tokens ahead: the text itself, or a smaller model of the same tokenizer."""

_WHOLE: tuple[Precision, ...] = ("fp32", "bf16")


class LoadedModel:
    """A model and the tokenizer it was trained with. Make one with `nextok.load`.

    A prompt is text or ids. `unknown` says what becomes of a character of the text that a vocabulary of characters does
    not have: an `error`, `drop` it, or `replace` it by a mark that the vocabulary has.

    Weights are read when they are first needed, in the form that is needed.
    """

    def __init__(
        self,
        path: Path | None,
        stored: StoredModel,
        *,
        backend: Backend = "auto",
        precision: Precision = "fp32",
    ) -> None:
        if backend == "torch" and precision not in _WHOLE:
            raise ConfigError(f"torch does not decode in {precision}.", "Take the backend numba, or auto.")
        self.path, self.config, self.tokenizer = path, stored.config, stored.tokenizer
        self.backend, self.precision = backend, precision
        self._note = stored.note
        self._unread: StoredModel | None = stored
        self._fastest: Measured | None = None
        self._torch: GPT | None = None
        self._is_shared = False
        self._packed: dict[Precision, PackedModel] = {}

    @classmethod
    def of(cls, model: "GPT", tokenizer: Tokenizer | None) -> "LoadedModel":
        """Returns a model that is at hand, with its tokenizer; torch decodes."""
        stored = StoredModel(config=model.config, arrays=iter(()), tokenizer=tokenizer)
        loaded = cls(None, stored, backend="torch")
        loaded._torch, loaded._is_shared = model, True
        return loaded

    @property
    def model(self) -> "GPT":
        """Returns the torch model. From then on it decodes too, since its weights or values may be changed."""
        self._is_shared = True
        return self._torch_model()

    def packed(self, precision: Precision | None = None) -> PackedModel:
        """Returns the model packed for the Numba engine, by default in its own precision."""
        if self.path is None:
            raise ConfigError("Only a model that lies in a file is packed.", "Save it, and load it from there.")
        wanted = precision or self.precision
        if wanted not in self._packed:
            found = find_packed(self.path, self.config, wanted)
            if found is None:
                stored = self._reopened()
                found = pack_model(stored.config, stored.arrays, wanted)
            self._packed[wanted] = found
        return self._packed[wanted]

    def decoder(self, n_slots: int = 1) -> Decoder:
        """Returns a new decoder over so many sequences: torch's or the Numba engine's.

        With the backend `auto` that which is faster on this machine, measured once for each size of model. Int8 and
        int4 are the engine's alone.

        Raises:
            InputError: if the model has no causal mask.
        """
        makers = {"torch": self._torch_decoder, "numba": self._numba_decoder}
        return makers[self._chosen()](n_slots)

    def ids(self, prompt: Prompt, *, unknown: Unknown = "error") -> Int64[np.ndarray, " T"]:
        """Returns the ids of a text, after the id that the tokenizer begins prompts with, if any; ids as they are.

        Raises:
            ConfigError: for text where there is no tokenizer.
            UnknownCharacterError: for a character the vocabulary does not have, unless `unknown` lets it pass.
        """
        if not isinstance(prompt, str):
            return np.asarray(prompt, dtype=np.int64)
        if self.tokenizer is None:
            raise ConfigError(self._note or "This model has no tokenizer.", "Give the prompt as token ids.")
        return self.tokenizer.encode_prompt(prompt, unknown=unknown)

    def logits(self, prompt: Prompt, *, unknown: Unknown = "error") -> Float32[np.ndarray, "T V"]:
        """Returns the logits of the next token after every token of the prompt.

        Raises:
            InputError: if the prompt is empty or longer than the context.
        """
        ids_T = self.ids(prompt, unknown=unknown)
        if self.precision not in _WHOLE:
            return np.array(self._numba_decoder(1).prefill(0, ids_T, all_positions=True))
        return self.trace(ids_T, ["logits"])["logits"]

    def trace(
        self, prompt: Prompt, names: Sequence[str], *, unknown: Unknown = "error"
    ) -> dict[str, NDArray[np.float32]]:
        """Returns the values at the named hook points for one prompt, without the batch axis.

        Raises:
            ConfigError: for a name this model has not; patterns such as `blocks.*.attn.pattern` are names too.
        """
        import torch  # noqa: PLC0415 - the Numba engine does without, and starts two seconds sooner

        model = self._torch_model()
        device = model.embed.tokens.weight.device
        with torch.inference_mode():
            found = model.trace(torch.from_numpy(self.ids(prompt, unknown=unknown)).to(device)[None], names)
        return {name: value[0].float().cpu().numpy() for name, value in found.items()}

    def generate(
        self, prompt: Prompt, *, unknown: Unknown = "error", speculate: "Guesser | None" = None, **sampling: Any
    ) -> Generation:
        """Returns one continuation of the prompt; keywords are the fields of `nextok.decode.SamplingConfig`.

        With `speculate`, guesses are read several at a time; the text is the same.

        Raises:
            ConfigError: for an option that does not fit, n above 1 among them.
            PromptError: if the prompt cannot be served.
        """
        if sampling.get("n", 1) != 1:
            raise ConfigError(f"generate returns one continuation, not n = {sampling['n']}.", "Call generate_all.")
        return self.generate_all([prompt], unknown=unknown, speculate=speculate, **sampling)[0][0]

    def generate_all(
        self,
        prompts: Sequence[Prompt],
        *,
        n_slots: int = 4,
        unknown: Unknown = "error",
        speculate: "Guesser | None" = None,
        **sampling: Any,
    ) -> list[list[Generation]]:
        """Returns `n` continuations of each prompt, `n_slots` at a time; each is what it would be alone.

        With `speculate` they are made one after the other.
        """
        config = _sampling(sampling)
        prompt_ids = [self.ids(prompt, unknown=unknown) for prompt in prompts]
        if speculate is not None:
            return self._speculation(speculate).generate(prompt_ids, config)
        decoder = self.decoder(max(1, min(n_slots, len(prompts) * config.n)))
        return generate(decoder, self.tokenizer, prompt_ids, config)

    def stream(
        self,
        prompt: Prompt,
        *,
        choice: int = 0,
        explain: bool = False,
        unknown: Unknown = "error",
        speculate: "Guesser | None" = None,
        **sampling: Any,
    ) -> Iterator[Event]:
        """Yields one continuation token by token; with `explain`, each with how it was chosen."""
        config, prompt_ids = _sampling(sampling), self.ids(prompt, unknown=unknown)
        if speculate is not None:
            return self._speculation(speculate).stream(prompt_ids, config, choice=choice, explain=explain)
        return stream(self.decoder(), self.tokenizer, prompt_ids, config, choice=choice, explain=explain)

    def beam_search(self, prompt: Prompt, *, unknown: Unknown = "error", **search: Any) -> list[Beam]:
        """Returns the likeliest continuations found, best first; keywords are the fields of `nextok.decode.BeamConfig`.

        Raises:
            ConfigError: for an option that does not fit.
            PromptError: if the prompt cannot be served.
        """
        config = options.from_mapping(BeamConfig, search, "search")
        return beam_search(self.decoder(config.n_beams), self.tokenizer, self.ids(prompt, unknown=unknown), config)

    def _chosen(self) -> Measured:
        if self.backend != "auto":
            return self.backend
        if self._is_shared or self.config.mask != "causal":
            return "torch"
        if self.precision not in _WHOLE:
            return "numba"
        makers: dict[Measured, Callable[[], Decoder]] = {
            "torch": lambda: self._torch_decoder(1),
            "numba": lambda: self._numba_decoder(1),
        }
        if self._fastest is None:
            self._fastest = fastest(self.config, makers, machine.cache_folder() / "backends.json")
        return self._fastest

    def _reopened(self) -> StoredModel:
        """Returns the model as a file: as it was opened at first, whose weights can be read once, and later anew."""
        stored, self._unread = self._unread, None
        if stored is None:
            assert self.path is not None, "a model at hand is there"
            stored = open_runnable(self.path)
        return stored

    def _numba_decoder(self, n_slots: int) -> Decoder:
        return NumbaDecoder(self.packed(), n_slots)

    def _torch_decoder(self, n_slots: int) -> Decoder:
        from nextok.model import TorchDecoder  # noqa: PLC0415 - torch, which the Numba engine does without

        return TorchDecoder(self._torch_model(), n_slots)

    def _torch_model(self) -> "GPT":
        if self._torch is None:
            from nextok.model import filled  # noqa: PLC0415 - torch, which the Numba engine does without

            stored = self._reopened()
            model = filled(stored.config, stored.arrays)
            self._torch = model.bfloat16() if self.precision == "bf16" else model
        return self._torch

    def _speculation(self, guesser: "Guesser") -> Speculation:
        return Speculation(self.decoder(), self.tokenizer, self._drafter(guesser))

    def _drafter(self, guesser: "Guesser") -> NgramDrafter | ModelDrafter:
        if isinstance(guesser, str):
            if guesser != "ngram":
                raise ConfigError(f"speculate = {guesser!r} is not 'ngram'.", "Or hand in a loaded model.")
            # Two characters agree everywhere; two BPE tokens are a phrase.
            spelled = self.tokenizer is not None and self.tokenizer.kind in ("char", "byte")
            return NgramDrafter(least=4 if spelled else 2, most=16 if spelled else 8)
        if self.tokenizer is None or guesser.tokenizer is None:
            same = self.tokenizer is guesser.tokenizer and self.config.vocab_size == guesser.config.vocab_size
        else:
            same = self.tokenizer.fingerprint == guesser.tokenizer.fingerprint
        if not same:
            message = "The draft model has another tokenizer than the model."
            raise ConfigError(message, "Take one that was trained with the same tokenizer.json.")
        return ModelDrafter(guesser.decoder())


def load(path: str | Path, *, backend: Backend = "auto", precision: Precision = "fp32") -> LoadedModel:
    """Returns the model of a run directory, a directory of transformers or a GGUF file, on the CPU, ready to generate.

    Args:
        path: The model.
        backend: What decodes: `torch`, `numba`, or the faster of them.
        precision: How weights are kept for decoding: fp32, bf16, and on the Numba engine int8 or int4.

    Raises:
        CheckpointError: if there is no model at the path, or it cannot be read.
        TokenizerError: if the tokenizer beside it cannot be read, or has more tokens than the model.
        ConfigError: for a precision that the backend has not.
    """
    return LoadedModel(Path(path), open_runnable(Path(path)), backend=backend, precision=precision)


def _sampling(values: dict[str, Any]) -> SamplingConfig:
    return options.from_mapping(SamplingConfig, values, "sampling")
