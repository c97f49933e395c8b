"""An example's threads are its own: whatever it sets is undone, also when it fails."""

import pytest
import torch

from nextok.lessons.threads import threads


def test_threads_are_as_asked_within_and_as_before_after() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_threads_come_back_after_a_change_and_an_error() -> None:
    before = torch.get_num_threads()
    with pytest.raises(KeyError), threads():
        assert torch.get_num_threads() == before
        torch.set_num_threads(before + 2)
        raise KeyError
    assert torch.get_num_threads() == before
