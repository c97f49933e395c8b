"""A small NumPy model and tokenizers for the tests of decode: one layer of attention with learned positions."""

import codecs
from collections.abc import Sequence

import numpy as np

from nextok.errors import PromptError

V, D = 13, 16


class TinyDecoder:
    """Logits depend on every id of the context and on its position, so a shifted, padded or stale cache shows."""

    def __init__(self, *, context: int = 8, n_slots: int = 3, vocab_size: int = V, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.context, self.n_slots, self.vocab_size = context, n_slots, vocab_size
        self._tokens_VD = rng.normal(size=(vocab_size, D))
        self._positions_SD = rng.normal(size=(context, D))
        self._qkv_3DD = rng.normal(size=(3, D, D)) / 3
        self._head_DV = rng.normal(size=(D, vocab_size)) / 2
        self._keys: list[list[np.ndarray]] = [[] for _ in range(n_slots)]
        self._values: list[list[np.ndarray]] = [[] for _ in range(n_slots)]
        self.ids: list[list[int]] = [[] for _ in range(n_slots)]
        self.n_calls = {"prefill": 0, "step": 0}
        self.n_prefilled = self.n_copied = self.most_at_once = 0

    def prefill(self, slot: int, ids_T: np.ndarray, *, all_positions: bool = False) -> np.ndarray:
        self.n_calls["prefill"] += 1
        self.n_prefilled += len(ids_T)
        if not 0 < len(ids_T) <= self.context - self.length(slot):
            raise PromptError(f"{len(ids_T)} ids do not fit into slot {slot}.")
        logits_TV = np.stack([self._read(slot, int(id)) for id in ids_T])
        return logits_TV if all_positions else logits_TV[-1]

    def step(self, slots: Sequence[int], ids: Sequence[int]) -> np.ndarray:
        self.n_calls["step"] += 1
        self.most_at_once = max(self.most_at_once, len(slots))
        assert len(set(slots)) == len(slots) > 0
        assert all(0 < self.length(slot) < self.context for slot in slots)
        return np.stack([self._read(slot, id) for slot, id in zip(slots, ids, strict=True)])

    def truncate(self, slot: int, length: int) -> None:
        assert 0 <= length <= self.length(slot)
        del self._keys[slot][length:], self._values[slot][length:], self.ids[slot][length:]

    def copy(self, source: int, target: int, length: int) -> None:
        start = self.length(target)
        assert start <= length <= self.length(source)
        assert self.ids[target] == self.ids[source][:start]
        for cache in (self._keys, self._values, self.ids):
            cache[target] += cache[source][start:length]
        self.n_copied += length - start

    def release(self, slot: int) -> None:
        self.truncate(slot, 0)

    def length(self, slot: int) -> int:
        return len(self._keys[slot])

    @property
    def lengths(self) -> list[int]:
        return [self.length(slot) for slot in range(self.n_slots)]

    def _read(self, slot: int, id: int) -> np.ndarray:
        assert 0 <= id < self.vocab_size
        x_D = self._tokens_VD[id] + self._positions_SD[self.length(slot)]
        q_D, k_D, v_D = self._qkv_3DD @ x_D
        self.ids[slot].append(id)
        self._keys[slot].append(k_D)
        self._values[slot].append(v_D)
        scores_S = np.stack(self._keys[slot]) @ q_D / np.sqrt(D)
        pattern_S = np.exp(scores_S - scores_S.max())
        mixed_D = pattern_S @ np.stack(self._values[slot]) / pattern_S.sum()
        return ((x_D + mixed_D) @ self._head_DV).astype(np.float32)


class ScriptedDecoder:
    """Says one fixed list of ids whatever it reads, then repeats the last; `logits` may replace the rows."""

    def __init__(self, script: Sequence[int], *, vocab_size: int, context: int = 1000, n_slots: int = 1) -> None:
        self.context, self.n_slots, self.vocab_size = context, n_slots, vocab_size
        self._script = list(script)
        self._read = [0] * n_slots
        self._prompt = [0] * n_slots

    def prefill(self, slot: int, ids_T: np.ndarray, *, all_positions: bool = False) -> np.ndarray:
        self._read[slot] += len(ids_T)
        self._prompt[slot] = self._read[slot]
        return self._row(slot)

    def step(self, slots: Sequence[int], ids: Sequence[int]) -> np.ndarray:
        for slot in slots:
            self._read[slot] += 1
        return np.stack([self._row(slot) for slot in slots])

    def truncate(self, slot: int, length: int) -> None:
        self._read[slot] = length

    def copy(self, source: int, target: int, length: int) -> None:
        raise AssertionError("what it says depends on how a prompt came in")

    def release(self, slot: int) -> None:
        self._read[slot] = 0

    def length(self, slot: int) -> int:
        return self._read[slot]

    def _row(self, slot: int) -> np.ndarray:
        row_V = np.zeros(self.vocab_size, np.float32)
        n_written = self._read[slot] - self._prompt[slot]
        row_V[self._script[min(n_written, len(self._script) - 1)]] = 10
        return row_V


class CharTokenizer:
    """Id i is the i-th character; the last id is end of text where asked for."""

    def __init__(self, characters: str, *, ends: bool = False) -> None:
        self.characters = characters
        self.end_of_text = len(characters) if ends else None
        self.vocab_size = len(characters) + ends

    def encode(self, text: str) -> np.ndarray:
        return np.array([self.characters.index(c) for c in text], np.int64)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join("<end>" if id == self.end_of_text else self.characters[id] for id in ids)

    def stream(self, after: Sequence[int] = ()) -> "CharStream":
        return CharStream(self)


class CharStream:
    def __init__(self, tokenizer: CharTokenizer) -> None:
        self._tokenizer = tokenizer

    def push(self, id: int, /) -> str:
        return self._tokenizer.decode([id])

    def flush(self) -> str:
        return ""


class ByteTokenizer:
    """Ids 0 to 255 are bytes, 256 is end of text."""

    vocab_size, end_of_text = 257, 256

    def stream(self, after: Sequence[int] = ()) -> "ByteStream":
        return ByteStream()


class ByteStream:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, id: int, /) -> str:
        return self._decoder.decode(bytes([id]))

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class Cycle:
    """A constraint under which ids come as 0, 1, 2, ... n - 1, 0, ...; whole after so many, done after `most`."""

    def __init__(self, n: int, *, can_end_after: int = 10**9, most: int = 10**9) -> None:
        self._n, self._can_end_after, self._most = n, can_end_after, most
        self.n_taken = 0

    @property
    def can_end(self) -> bool:
        return self.n_taken >= self._can_end_after

    @property
    def is_done(self) -> bool:
        return self.n_taken >= self._most

    def allowed(self) -> np.ndarray:
        return np.arange(260) == self.n_taken % self._n

    def advance(self, id: int) -> None:
        assert self.allowed()[id]
        self.n_taken += 1

    def n_possible(self, ids: Sequence[int]) -> int:
        wanted = [(self.n_taken + i) % self._n for i in range(len(ids))]
        return next((i for i, (id, want) in enumerate(zip(ids, wanted, strict=True)) if id != want), len(ids))

    def copy(self) -> "Cycle":
        other = Cycle(self._n, can_end_after=self._can_end_after, most=self._most)
        other.n_taken = self.n_taken
        return other
