"""Streams are functions of their arguments alone: the values below never change, or every saved run would."""

import itertools
import subprocess
import sys
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok import rng

PURPOSES = get_args(rng.Purpose)


GOLDEN = [
    ((0, "init", 0), 1801107035658318964),
    ((0, "order"), 2305520237214888859),
    ((1337, "order", 1), 2942774270381742164),
    ((42, "dropout", 7, 3), 11028826209966206409),
    ((-1, "eval"), 4466309873912071749),
    ((1180591620717411303424, "sample", 0, 199), 13889556241521496284),
]


@pytest.mark.parametrize(("arguments", "key"), GOLDEN)
def test_keys_are_the_ones_that_runs_were_made_with(arguments: tuple, key: int) -> None:
    assert rng.key(*arguments) == key


def test_uniform_is_the_top_53_bits_of_the_key() -> None:
    assert rng.uniform(0, "order") == 0.12498250249488385
    assert rng.uniform(0, "order") == (rng.key(0, "order") >> 11) / 2**53


def test_purposes_are_the_five_streams_of_a_run() -> None:
    assert PURPOSES == ("init", "order", "dropout", "eval", "sample")


def test_another_seed_purpose_or_index_gives_another_key() -> None:
    indices = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (10,), (1, 0, 0)]
    keys = [rng.key(*each[:2], *each[2]) for each in itertools.product(range(-3, 30), PURPOSES, indices)]
    assert len(set(keys)) == len(keys)


def test_numbers_are_not_glued_together() -> None:
    assert rng.key(1, "eval", 23) != rng.key(1, "eval", 2, 3) != rng.key(12, "eval", 3)


@given(seed=st.integers(), purpose=st.sampled_from(PURPOSES), index=st.lists(st.integers(), max_size=4))
def test_key_and_uniform_stay_in_range(seed: int, purpose: rng.Purpose, index: list[int]) -> None:
    assert 0 <= rng.key(seed, purpose, *index) < 2**64
    assert 0.0 <= rng.uniform(seed, purpose, *index) < 1.0


def test_the_largest_key_stays_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rng, "key", lambda *_: 2**64 - 1)
    assert rng.uniform(0, "sample") == 1 - 2**-53


def test_numpy_and_bool_numbers_count_as_the_numbers_they_are() -> None:
    numpy = pytest.importorskip("numpy")
    assert rng.key(numpy.int64(7), "init", numpy.uint8(3)) == rng.key(7, "init", 3)


def test_uniform_draws_fill_the_interval_evenly() -> None:
    draws = [rng.uniform(0, "sample", i) for i in range(4000)]
    tenths = [sum(tenth / 10 <= draw < (tenth + 1) / 10 for draw in draws) for tenth in range(10)]
    assert all(330 < count < 470 for count in tenths)  # 400, and 3.7 standard deviations of 19


def test_keys_do_not_depend_on_the_process() -> None:
    program = "from nextok import rng; print(rng.key(3, 'order', 5))"
    printed = [
        subprocess.run([sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in ("1", "2")
    ]
    assert {int(done.stdout) for done in printed} == {rng.key(3, "order", 5)}
