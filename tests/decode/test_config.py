import math

import pytest

from nextok.config import from_mapping, to_mapping
from nextok.decode import SamplingConfig
from nextok.errors import ConfigError

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_new_tokens", [-1, 1.5, NAN, True, None]),
        ("temperature", [-0.1, NAN, INF, -INF, "hot", None]),
        ("top_k", [-1, 2.0, None]),
        ("top_p", [0, 0.0, -0.1, 1.0001, NAN, INF]),
        ("min_p", [-0.01, 1.01, NAN]),
        ("repetition_penalty", [0, -1, NAN, INF]),
        ("frequency_penalty", [NAN, INF, -INF]),
        ("presence_penalty", [NAN, INF, -INF]),
        ("stop", [("",), ("a", ""), "ab", (1,)]),
        ("min_new_tokens", [-1, 201]),
        ("banned_ids", [(-1,), (1.5,)]),
        ("stop_ids", [(-1,), (1.5,), (True,)]),
        ("regex", [None, 1, b"a"]),
        ("json_schema", [None, {"type": "object"}]),
        ("logit_bias", [((-1, 1.0),), ((1, NAN),), ((1, INF),), ((1, -INF),)]),
        ("top_logprobs", [-1]),
        ("seed", [0.5, None]),
        ("n", [0, -1]),
        ("overflow", ["crop", None, ""]),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_name_of_its_field(name, values):
    for value in values:
        with pytest.raises(ConfigError, match=f"^{name} = "):
            SamplingConfig(**{name: value})


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 0},
        {"temperature": 0},
        {"temperature": 1e-300},
        {"top_k": 10**9},
        {"top_p": 1},
        {"top_p": 1e-12},
        {"min_p": 0},
        {"min_p": 1},
        {"repetition_penalty": 0.5},
        {"frequency_penalty": -2},
        {"seed": -(2**70)},
        {"max_new_tokens": 5, "min_new_tokens": 5},
        *({"overflow": policy} for policy in ("stop", "slide", "half")),
    ],
)
def test_the_ends_of_every_range_are_allowed(options):
    SamplingConfig(**options)


def test_two_grammars_for_one_text_are_refused():
    with pytest.raises(ConfigError, match="regex and json_schema are two grammars"):
        SamplingConfig(regex="a", json_schema="{}")


def test_lists_become_tuples_so_that_options_can_be_compared_and_hashed():
    listed = SamplingConfig(stop=["a"], stop_ids=[4], banned_ids=[1], logit_bias=[[2, 0.5]])
    assert listed == SamplingConfig(stop=("a",), stop_ids=(4,), banned_ids=(1,), logit_bias=((2, 0.5),))
    assert hash(listed) == hash(SamplingConfig(stop=("a",), stop_ids=(4,), banned_ids=(1,), logit_bias=((2, 0.5),)))


def test_options_survive_a_file():
    options = SamplingConfig(
        temperature=0.5, stop=("\n", "END"), stop_ids=(7,), regex="a+", banned_ids=(3,), overflow="half"
    )
    assert from_mapping(SamplingConfig, to_mapping(options)) == options
