"""Counts against the lessons, the papers, the tensors, and what torch itself counts and keeps."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from nextok.model import build, next_token_loss
from nextok.spec import ModelConfig, count, preset_config


def test_the_lesson_model_part_by_part() -> None:
    counts = count(preset_config("lesson-a"))
    assert counts.parameters == 107_008
    assert counts.parameters_by_part == {
        "token embedding": 3_200,
        "position embedding": 512,
        "attention": 2 * 16_640,
        "feed-forward": 2 * 33_088,
        "norms": 2 * 256 + 128,
        "head": 3_200,
    }
    assert counts.matmul_parameters == 101_504
    assert counts.non_embedding_parameters == 107_008 - 3_200 - 512
    assert counts.training_flops_per_token == 621_312
    assert counts.training_flops_per_token_6n == 642_048
    assert counts.forward_flops_per_token * 3 == 621_312
    shares = {part: round(100 * size / 107_008, 1) for part, size in counts.parameters_by_part.items()}
    assert (shares["feed-forward"], shares["attention"]) == (61.8, 31.1)


def test_tying_the_lesson_models_head_saves_exactly_its_matrix() -> None:
    size = {"n_layers": 2, "d_model": 64, "n_heads": 4, "context": 8, "vocab_size": 50, "mlp": "gelu"}
    tied, untied = (count(ModelConfig(**size, tied_head=tied)) for tied in (True, False))
    assert (tied.parameters, untied.parameters) == (103_808, 107_008)
    assert tied.parameters_by_part["head"] == 0
    assert tied.matmul_parameters == untied.matmul_parameters, "the product with the table costs the same"


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("gpt1", 116_534_784),
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("gpt3", 174_604_259_328),
        ("stretch", 4_821_248),
    ],
)
def test_parameters_of_the_papers_models(preset: str, parameters: int) -> None:
    assert count(preset_config(preset)).parameters == parameters


def test_gpt2_small_part_by_part() -> None:
    counts = count(preset_config("gpt2"))
    parts = counts.parameters_by_part
    assert (parts["token embedding"], parts["position embedding"]) == (38_597_376, 786_432)
    width = 768
    assert parts["attention"] + parts["feed-forward"] + parts["norms"] - 1_536 == 85_054_464
    assert parts["attention"] == 12 * (4 * width**2 + 4 * width)
    assert parts["feed-forward"] == 12 * (8 * width**2 + 5 * width)
    assert counts.non_embedding_parameters == 124_439_808 - 38_597_376 - 786_432
    assert round(counts.training_flops_per_token / counts.training_flops_per_token_6n, 2) == 1.14


def test_untying_the_stretch_models_head_adds_it() -> None:
    config = preset_config("stretch")
    untied = ModelConfig(n_layers=6, d_model=256, n_heads=8, context=256, vocab_size=65, tied_head=False)
    assert count(untied).parameters == 4_837_888 == count(config).parameters + 65 * 256


def test_the_parts_are_the_whole(any_config: ModelConfig) -> None:
    counts = count(any_config)
    assert sum(counts.parameters_by_part.values()) == counts.parameters
    embeddings = sum(size for part, size in counts.parameters_by_part.items() if part.endswith("embedding"))
    assert counts.non_embedding_parameters + embeddings == counts.parameters
    assert counts.training_flops_per_token_6n == 6 * counts.parameters


def test_parameters_are_those_of_the_tensors_with_a_shared_table_once(any_config: ModelConfig) -> None:
    model = build(any_config, seed=0)
    assert count(any_config).parameters == sum(parameter.numel() for parameter in model.parameters())
    assert count(any_config).weight_bytes == sum(parameter.nbytes for parameter in model.parameters())


def test_operations_are_those_that_torch_counts_forward_and_backward(any_config: ModelConfig) -> None:
    model = build(any_config, seed=0).eval()
    model.use_eager_attention()  # torch's counter knows matrix products on every device, fused attention on some
    ids_BT = torch.zeros(3, any_config.context, dtype=torch.int64)
    counts, tokens = count(any_config), ids_BT.numel()
    with FlopCounterMode(display=False) as counter:
        loss = next_token_loss(model(ids_BT), ids_BT)
        assert counter.get_total_flops() == counts.forward_flops_per_token * tokens
        loss.backward()
    assert counter.get_total_flops() == counts.training_flops_per_token * tokens


def kept_bytes_per_token(config: ModelConfig, batch: int) -> float:
    """Returns what autograd keeps of one step, weights aside, each storage once; the caller holds the logits too."""
    model = build(config, seed=0).train()
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage  # held, so that no address comes twice
        return tensor

    ids_BT = torch.zeros(batch, config.context, dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        logits_BTV = model(ids_BT)
        next_token_loss(logits_BTV, ids_BT)
    kept[logits_BTV.untyped_storage().data_ptr()] = logits_BTV.untyped_storage()
    return sum(storage.nbytes() for storage in kept.values()) / ids_BT.numel()


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"vocab_size": 2048},
        {"norm_placement": "after", "norm": "rmsnorm"},
        {"n_kv_heads": 1},
        {"mlp": "relu"},
        {"mlp": "relu2", "logit_softcap": 30.0},
        {"mlp": "swiglu", "position": "rope", "norm": "rmsnorm", "bias": False, "tied_head": False},
        {"mlp": "swiglu", "position": "rope", "norm": "rmsnorm", "qk_norm": True, "n_kv_heads": 2},
        {"dropout": 0.1, "n_kv_heads": 2},
    ],
    ids=str,
)
def test_activation_memory_is_what_autograd_keeps_within_10_percent(parts: dict) -> None:
    config = ModelConfig(**{"n_layers": 3, "d_model": 64, "n_heads": 4, "context": 32, "vocab_size": 97, **parts})
    assert count(config).activation_bytes_per_token == pytest.approx(kept_bytes_per_token(config, batch=4), rel=0.10)


def test_memory_of_a_training_step_adds_up() -> None:
    counts = count(preset_config("lesson-a"))
    assert counts.training_state_bytes == 16 * 107_008
    assert counts.training_memory_bytes(64) == 16 * 107_008 + 64 * counts.activation_bytes_per_token


def test_the_cache_holds_keys_and_values_of_every_layer_for_each_kv_head() -> None:
    assert count(preset_config("gpt2")).kv_cache_bytes_per_token == 4 * 2 * 12 * 768
    shared = ModelConfig(n_layers=2, d_model=16, n_heads=4, n_kv_heads=2, vocab_size=5)
    assert count(shared).kv_cache_bytes_per_token == 4 * 2 * 2 * 2 * 4
