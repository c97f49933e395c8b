"""Which window comes when: a pure function of (seed, position), with nothing stored between batches.

An epoch is the non-overlapping windows from a random offset, visited in a permuted order without replacement. Position
is counted in samples, so batch size, accumulation and number of processes do not change the sequence, and a resumed run
goes on where it stopped. The permutation is a Feistel network, which maps any position to its window directly.
"""

import bisect

import numpy as np
import numpy.typing as npt

from nextok.rng import key

_ROUNDS = 8
_BLOCK_SAMPLES = 4096  # NumPy's cost for each call is shared by so many samples

_Words = npt.NDArray[np.uint64]


class SampleOrder:
    """The endless sequence of window starts for a split of `n_tokens`.

    Args:
        n_tokens: Tokens in the split.
        context: Inputs in a window; a window takes context + 1 tokens.
        seed: Seed of the run.
    """

    def __init__(self, n_tokens: int, context: int, seed: int) -> None:
        if context < 1 or n_tokens <= context:
            raise ValueError(f"{n_tokens} tokens hold no window of {context} inputs")  # `check_length` tells users
        self.legal_windows = n_tokens - context
        self._context, self._seed = context, seed
        self._first_samples = [0]  # of each epoch so far; epochs differ by one window, so their sum has no formula
        self._kept_block = (-1, -1, np.empty(0, dtype=np.int64))

    def starts(self, first_sample: int, count: int) -> npt.NDArray[np.int64]:
        """Returns the window starts of samples first_sample..first_sample+count-1, int64 [count]."""
        parts = [np.empty(0, dtype=np.int64)]
        while count > 0:
            epoch = self._epoch_of(first_sample)
            number, skipped = divmod(first_sample - self._first_samples[epoch], _BLOCK_SAMPLES)
            part = self._block(epoch, number)[skipped : skipped + count]
            parts.append(part)
            first_sample, count = first_sample + len(part), count - len(part)
        return np.concatenate(parts)

    def epoch(self, sample: int) -> float:
        """Returns how many epochs lie before the sample: 2.5 is the middle of the third."""
        epoch = self._epoch_of(sample)
        first, following = self._first_samples[epoch : epoch + 2]
        return epoch + (sample - first) / (following - first)

    def _epoch_of(self, sample: int) -> int:
        if sample < 0:
            raise ValueError(f"sample {sample} is negative")
        while self._first_samples[-1] <= sample:
            epoch = len(self._first_samples) - 1
            self._first_samples.append(self._first_samples[-1] + self._windows(epoch))
        return bisect.bisect_right(self._first_samples, sample) - 1

    def _offset(self, epoch: int) -> int:
        return key(self._seed, "order", epoch) % min(self._context, self.legal_windows)

    def _windows(self, epoch: int) -> int:
        return -(-(self.legal_windows - self._offset(epoch)) // self._context)

    def _block(self, epoch: int, number: int) -> npt.NDArray[np.int64]:
        """Returns the starts of a stretch of one epoch; the last one is kept, because batches come in sequence."""
        if self._kept_block[:2] != (epoch, number):
            first, windows = number * _BLOCK_SAMPLES, self._windows(epoch)
            positions = np.arange(first, min(first + _BLOCK_SAMPLES, windows), dtype=np.uint64)
            keys = [key(self._seed, "order", epoch, turn) for turn in range(_ROUNDS)]
            starts = self._offset(epoch) + permute(positions, windows, keys) * self._context
            self._kept_block = (epoch, number, starts)
        return self._kept_block[2]


def permute(positions: _Words, size: int, keys: list[int]) -> npt.NDArray[np.int64]:
    """Returns the image of each position under a permutation of 0..size-1 given by the keys, int64.

    A Feistel network permutes the next power of four; a value that lands outside 0..size-1 goes through it again until
    it lands inside (cycle walking), under four rounds on average.
    """
    if size == 1:
        return np.zeros(len(positions), dtype=np.int64)
    half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
    values = _feistel(positions, half_bits, keys)
    while (outside := values >= size).any():
        values[outside] = _feistel(values[outside], half_bits, keys)
    return values.astype(np.int64)


def _feistel(values: _Words, half_bits: int, keys: list[int]) -> _Words:
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = values >> shift, values & mask
    for round_key in keys:
        left, right = right, left ^ (_mix(right + np.uint64(round_key)) & mask)
    return (left << shift) | right


def _mix(words: _Words) -> _Words:
    """Returns each 64-bit word with its bits spread over all others (the finalizer of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
