"""Devices and threads."""

import numba
import pytest
import torch

from nextok import machine
from nextok.errors import ConfigError
from nextok.train.device import choose_device, use_threads


def test_device_that_is_not_here_is_refused_by_name() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(ConfigError, match="device = 'tpu'"):
        choose_device("tpu")


def test_threads_follow_the_cores_this_process_may_use() -> None:
    before, numba_before = torch.get_num_threads(), numba.get_num_threads()
    try:
        use_threads(0)
        assert torch.get_num_threads() == machine.usable_cores()
        use_threads(1)
        assert torch.get_num_threads() == numba.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
        numba.set_num_threads(numba_before)
