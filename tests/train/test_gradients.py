"""Gradients of several processes: sums over the valid targets of all of them, in buckets that stay as they are."""

from pathlib import Path

import numpy as np
import pytest
import torch

from crew import call_together
from nextok.train.gradients import Gradients, _buckets
from nextok.train.processes import ALONE
from shares import one_step


@pytest.mark.parametrize(("parallel", "world"), [("ddp", 2), ("ddp", 4), ("fsdp", 2)])
def test_a_step_is_that_of_one_process_on_the_whole_batch(parallel: str, world: int, tmp_path: Path) -> None:
    # rows of 8, 1, 0 and 5 valid targets: a mean of the processes' means would be another gradient
    alone = one_step(ALONE, parallel)
    answers = call_together(one_step, world, tmp_path, parallel)
    for answer in answers:
        assert answer.keys() == alone.keys()
        for name, value in alone.items():
            np.testing.assert_allclose(answer[name], value, atol=1e-5, rtol=1e-5, err_msg=name)
    for name in alone:
        for answer in answers[1:]:
            np.testing.assert_array_equal(answer[name], answers[0][name], err_msg=f"processes differ in {name}")


def test_buckets_hold_every_parameter_once_in_their_order() -> None:
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in (3, 10, 1, 1, 30, 2)]
    parameters.append(torch.nn.Parameter(torch.zeros(2, dtype=torch.bfloat16)))
    buckets = [bucket.parameters for bucket in _buckets(parameters, 40)]
    assert [len(bucket) for bucket in buckets] == [2, 3, 1, 1]
    assert [id(p) for bucket in buckets for p in bucket] == [id(p) for p in parameters]


def test_alone_a_backward_pass_is_torchs() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    gradients = Gradients()
    for last in (False, True):
        gradients.backward((weight * 3).sum(), last=last)
    assert weight.grad is not None and weight.grad.tolist() == [6, 6]
