"""Reading and writing bfloat16 bits: as torch rounds."""

import numba
import numpy as np
import torch

from nextok.jit.bfloat import narrow, wide


@numba.njit
def _narrow(x, out):
    for at in range(len(x)):
        out[at] = narrow(x[at], out)


@numba.njit
def _wide(x, out):
    for at in range(len(x)):
        out[at] = wide(x[at])


def test_rounding_is_torchs_ties_and_extremes_included() -> None:
    draw = np.random.default_rng(0)
    ties = (np.arange(1000, dtype=np.uint32) * 0x8000 + 0x3F800000).view(np.float32)
    x = np.concatenate(
        [draw.standard_normal(5000) * 10.0 ** draw.integers(-30, 30, 5000), ties, [0, -0.0, np.inf, -np.inf]]
    )
    x = x.astype(np.float32)
    bits = np.empty(len(x), np.int16)
    _narrow(x, bits)
    expected = torch.from_numpy(x).bfloat16()
    assert torch.equal(torch.from_numpy(bits), expected.view(torch.int16))
    back = np.empty_like(x)
    _wide(bits, back)
    np.testing.assert_array_equal(back, expected.float().numpy())


def test_float32_stays_what_it_is() -> None:
    x = np.array([1.1, -2.7e-30, 3e30], np.float32)
    out = np.empty_like(x)
    _narrow(x, out)
    np.testing.assert_array_equal(out, x)
    _wide(x, out)
    np.testing.assert_array_equal(out, x)
