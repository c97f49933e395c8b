"""The table of names and shapes against the tensors of the model it describes."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.model import GPT
from nextok.spec import ModelConfig, count, parameter_shapes, preset_config

legal_models = st.builds(
    lambda kv_heads, shared, d_head, **rest: ModelConfig(
        n_heads=kv_heads * shared, n_kv_heads=kv_heads, d_head=2 * d_head, **rest
    ),
    kv_heads=st.integers(1, 3),
    shared=st.integers(1, 3),
    d_head=st.integers(1, 3),
    n_layers=st.integers(1, 2),
    d_model=st.integers(1, 8),
    d_ff=st.integers(0, 5),
    context=st.integers(1, 5),
    vocab_size=st.integers(1, 7),
    norm=st.sampled_from(["layernorm", "rmsnorm"]),
    norm_placement=st.sampled_from(["before", "after"]),
    position=st.sampled_from(["learned", "rope"]),
    mlp=st.sampled_from(["gelu", "gelu_tanh", "relu", "relu2", "swiglu"]),
    qk_norm=st.booleans(),
    bias=st.booleans(),
    tied_head=st.booleans(),
    logit_softcap=st.sampled_from([0.0, 3.0]),
)


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Returns names and shapes of the real model, on a device that holds no numbers."""
    with torch.device("meta"):
        model = GPT(config)
    assert not list(model.buffers())
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


@settings(deadline=None, max_examples=60)
@given(legal_models)
def test_names_and_shapes_are_those_of_the_tensors_and_so_is_the_count(config: ModelConfig) -> None:
    tensors = tensor_shapes(config)
    assert parameter_shapes(config) == tensors
    assert count(config).parameters == sum(torch.Size(shape).numel() for shape in tensors.values())


def test_the_named_models_have_the_shapes_of_the_table_in_its_order(any_config: ModelConfig) -> None:
    assert list(parameter_shapes(any_config)) == list(tensor_shapes(any_config))
    assert parameter_shapes(any_config) == tensor_shapes(any_config)


def test_the_lesson_model_by_name() -> None:
    shapes = parameter_shapes(preset_config("lesson-a"))
    assert shapes["embed.tokens.weight"] == (50, 64)
    assert shapes["embed.positions.weight"] == (8, 64)
    assert shapes["blocks.1.attn.qkv.weight"] == (192, 64)
    assert shapes["blocks.1.attn.qkv.bias"] == (192,)
    assert shapes["blocks.0.mlp.down.weight"] == (64, 256)
    assert shapes["final_norm.bias"] == (64,)
    assert shapes["head.weight"] == (50, 64)


def test_parts_that_a_model_has_not_have_no_name() -> None:
    names = set(parameter_shapes(preset_config("nano", "modern")))
    assert "embed.positions.weight" not in names
    assert "head.weight" not in parameter_shapes(preset_config("nano", "classic"))
    assert not [name for name in names if name.endswith("bias")]
    assert {"blocks.0.attn.q_norm.weight", "blocks.0.attn.k_norm.weight"} <= names
    assert "final_norm.weight" not in parameter_shapes(preset_config("gpt1"))
