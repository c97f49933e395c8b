"""Hook points on their own: scopes, recording, replacing, and nothing at all."""

import pytest
import torch

from nextok.errors import InputError
from nextok.model.taps import NO_TAPS, Taps

ONE = torch.ones(1)


def test_without_taps_every_value_is_handed_on_as_it_is() -> None:
    assert NO_TAPS("blocks.0.norm1", ONE) is ONE
    assert NO_TAPS.at("blocks.0").at("attn")("q", ONE) is ONE
    assert not NO_TAPS.records("q")
    assert not NO_TAPS.replaces("q")


def test_only_what_is_asked_for_is_recorded_under_its_full_name() -> None:
    taps = Taps(record=["blocks.1.attn.q", "logits"])
    inner = taps.at("blocks.1").at("attn")
    assert inner("q", ONE) is ONE
    inner("k", ONE)
    taps.at("blocks.0").at("attn")("q", ONE)
    assert taps.recorded == {"blocks.1.attn.q": ONE}
    taps("logits", ONE)
    assert list(taps.recorded) == ["blocks.1.attn.q", "logits"]


def test_a_replaced_value_goes_on_and_is_what_is_recorded() -> None:
    taps = Taps(record=["mlp.out"], replace={"mlp.out": lambda value: value * 3})
    assert taps.at("mlp")("out", ONE).item() == 3
    assert taps.recorded["mlp.out"].item() == 3
    assert taps("out", ONE) is ONE


def test_a_replacement_of_another_shape_is_refused_by_name() -> None:
    taps = Taps(replace={"mlp.out": lambda value: value[None]}).at("mlp")
    with pytest.raises(InputError, match=r"replacement of mlp\.out gave shape \[1, 1\]; the value has \[1\]"):
        taps("out", ONE)


def test_a_layer_can_ask_whether_any_of_its_points_is_wanted() -> None:
    taps = Taps(record=["a.q"], replace={"a.k": lambda value: value}).at("a")
    assert taps.records("v", "q")
    assert not taps.records("k", "v")
    assert taps.replaces("v", "k")
    assert not taps.replaces("q", "v")
