"""Guesses of the next ids, for `speculation` to verify: from the text itself, or by a smaller model.

A wrong guess costs time and nothing else.
Axes: T ids, V vocabulary.
"""

from contextlib import suppress
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, Int64

from nextok.decode.chooser import Chooser
from nextok.decode.prefixes import common_prefix
from nextok.decode.protocol import Decoder
from nextok.errors import ConfigError, PromptError


@runtime_checkable
class Drafter(Protocol):
    """Proposes what comes next."""

    def propose(self, chooser: Chooser, most: int) -> Int64[np.ndarray, " T"]:
        """Returns at most `most` ids that may follow those of the chooser, which it does not change; often none.

        Args:
            chooser: The ids so far and the rules for the next one.
            most: At least 1.
        """

    def release(self) -> None:
        """Frees what the text just ended has taken."""


class NgramDrafter:
    """Proposes what followed the last time that the text read as it does now: prompt lookup.

    Costs a few microseconds and pays for text that repeats itself: code, lists, quotations of the prompt.
    Source: Saxena 2023, "Prompt lookup decoding".

    Args:
        least: The fewest ids that must agree, 1 or more.
        most: Of earlier places the one that agrees longest is taken, the latest of equals; more than this many ids do
            not count.

    Raises:
        ConfigError: if the numbers do not fit.
    """

    def __init__(self, least: int = 2, most: int = 8) -> None:
        if not 1 <= least <= most:
            raise ConfigError(f"N-grams of {least} to {most} ids are none.", "1 <= least <= most.")
        self._least, self._most = least, most

    def propose(self, chooser: Chooser, most: int) -> Int64[np.ndarray, " T"]:
        """Returns the `most` ids after the best earlier place; where the text ends before, it is taken to repeat."""
        ids_T = chooser.ids
        ends = np.flatnonzero(ids_T[:-1] == ids_T[-1])
        n_agreeing = 1
        while n_agreeing < self._most:
            longer = ends[ends >= n_agreeing]
            if longer.size:
                longer = longer[ids_T[longer - n_agreeing] == ids_T[-1 - n_agreeing]]
            if longer.size == 0:
                break
            ends, n_agreeing = longer, n_agreeing + 1
        if ends.size == 0 or n_agreeing < self._least:
            return ids_T[:0]
        return np.resize(ids_T[ends[-1] + 1 :], most)

    def release(self) -> None:
        """Does nothing."""


class ModelDrafter:
    """Proposes what a second, cheaper model of the same vocabulary would write.

    It draws under the same options with the same numbers as the text itself (seed, choice, position), so the better its
    distribution, the more often it says the very id. Two distributions drawn from with one number agree less often than
    they could: see `agreement`.

    Args:
        decoder: The second model.
        slot: Its slot, empty and nobody else's meanwhile.
    """

    def __init__(self, decoder: Decoder, slot: int = 0) -> None:
        self._decoder, self._slot = decoder, slot
        self._start = 0  # position in the text of the first id held
        self._held_T = np.empty(0, np.int64)

    def propose(self, chooser: Chooser, most: int) -> Int64[np.ndarray, " T"]:
        """Returns `most` ids, fewer where its context does not hold them or the text ends.

        Raises:
            ConfigError: if it lacks ids of the vocabulary.
        """
        if self._decoder.vocab_size < chooser.vocab_size:
            message = f"The draft model has {self._decoder.vocab_size} ids, the model {chooser.vocab_size}."
            raise ConfigError(message, "Take a draft model with the tokenizer of the model.")
        logits_V = self._read(chooser.ids, most)
        most = min(most, self._decoder.context - self._held_T.size + 1)
        guess, proposed = chooser.copy(), list[int]()
        with suppress(PromptError):  # rules that leave this guess no id to go on with end it
            while True:
                id = guess.choose(logits_V).id
                proposed.append(id)
                if guess.append(id) or guess.is_done or len(proposed) == most:
                    break
                logits_V = self._decoder.step([self._slot], [id])[0]
                self._held_T = np.append(self._held_T, id)
        return np.array(proposed, np.int64)

    def release(self) -> None:
        """Empties the slot."""
        self._decoder.release(self._slot)
        self._start, self._held_T = 0, np.empty(0, np.int64)

    def _read(self, ids_T: Int64[np.ndarray, " T"], most: int) -> Float32[np.ndarray, " V"]:
        """Brings the slot up to the text, reading only what it lacks; returns the logits after the last id."""
        context = self._decoder.context
        if ids_T.size - self._start + most - 1 > context:
            # Learned positions cannot be shifted: the newer half is read again, from position 0.
            self.release()
            self._start = max(0, ids_T.size - max(1, context // 2))
        window_T = ids_T[self._start :]
        n_common = min(common_prefix(self._held_T, window_T), window_T.size - 1)  # at least one id gives logits
        self._decoder.truncate(self._slot, n_common)
        logits_V = self._decoder.prefill(self._slot, window_T[n_common:])
        self._held_T = window_T.copy()
        return logits_V


def agreement(p_V: np.ndarray, q_V: np.ndarray) -> tuple[float, float]:
    """Returns how often a draft from q is kept for a text from p: drawn with one number, and at the very best.

    Drawn with one number, both fall on id i where its stretches of the two cumulative distributions overlap. The best
    that any scheme can do is the mass the two have in common, which rejection sampling reaches (Leviathan et al. 2023);
    but that needs draws of its own, and its text is not the text without speculation.
    """
    stop_p_V, stop_q_V = np.cumsum(p_V), np.cumsum(q_V)
    overlap_V = np.minimum(stop_p_V, stop_q_V) - np.maximum(stop_p_V - p_V, stop_q_V - q_V)
    return float(np.maximum(overlap_V, 0).sum()), float(np.minimum(p_V, q_V).sum())
