"""Attention: the lesson's example number by number, and the fast way against the formula."""

import math

import pytest
import torch
from torch import Tensor

from nextok.model.attention import Attention, causal_mask, fused_attention, share_heads, stepwise_attention
from nextok.model.taps import NO_TAPS, Taps
from nextok.spec import ModelConfig

CPU = torch.device("cpu")


@pytest.fixture
def example() -> tuple[Tensor, Tensor, Tensor]:
    """Returns the lesson's Q, K and V as one head: seed 7, T = 4, d_k = 4, drawn in this order."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        q, k, v = (torch.randn(4, 4) for _ in range(3))
    return q[None, None], k[None, None], v[None, None]


def steps(example: tuple[Tensor, Tensor, Tensor], *, causal: bool, **replace: object) -> dict[str, Tensor]:
    """Returns each line of the formula, `[T, S]`, and the result `out`, `[T, K]`."""
    taps = Taps(record=["scores", "scaled", "masked", "pattern"], replace=replace)  # type: ignore[arg-type]
    out_BHTK = stepwise_attention(*example, causal=causal, dropout=0.0, taps=taps)
    return {name: value[0, 0] for name, value in {**taps.recorded, "out": out_BHTK}.items()}


def assert_close(actual: Tensor, expected: list) -> None:
    """Checks the four digits that the lesson prints."""
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float32), atol=5.1e-5, rtol=0)


ATTENTION = [[1, 0, 0, 0], [0.3847, 0.6153, 0, 0], [0.0494, 0.1536, 0.7970, 0], [0.1979, 0.4743, 0.2192, 0.1086]]
OUT = [
    [-0.0835, -0.0235, 0.1744, 2.2983],
    [0.5568, -0.4163, -0.4427, 0.5114],
    [-0.9738, 0.9311, 1.1891, -0.8216],
    [0.1018, -0.0613, 0.0558, -0.0359],
]


def test_the_lessons_example_line_by_line(example: tuple[Tensor, Tensor, Tensor]) -> None:
    seen = steps(example, causal=True)
    assert_close(seen["scores"][0], [3.3594, 2.0866, -1.0663, 2.6557])
    assert_close(seen["scaled"][0], [1.6797, 1.0433, -0.5332, 1.3279])
    assert seen["masked"][0].tolist() == [seen["scaled"][0, 0].item(), -math.inf, -math.inf, -math.inf]
    assert_close(seen["pattern"], ATTENTION)
    assert_close(seen["out"], OUT)
    assert torch.equal(seen["out"][0], example[2][0, 0, 0]), "the first position can only take its own value"


def test_the_lessons_example_in_one_fused_call(example: tuple[Tensor, Tensor, Tensor]) -> None:
    assert_close(fused_attention(*example, causal=True)[0, 0], OUT)


def test_without_the_mask_the_first_row_looks_ahead(example: tuple[Tensor, Tensor, Tensor]) -> None:
    assert_close(steps(example, causal=False)["pattern"][0], [0.4270, 0.2260, 0.0467, 0.3003])


def test_masking_after_the_softmax_loses_weight_and_renormalising_finds_it(
    example: tuple[Tensor, Tensor, Tensor],
) -> None:
    late = steps(example, causal=False, pattern=torch.tril)["pattern"]
    assert_close(late.sum(-1), [0.4270, 0.2360, 0.7982, 1])
    assert_close(late / late.sum(-1, keepdim=True), ATTENTION)


def test_masking_with_zero_is_no_mask(example: tuple[Tensor, Tensor, Tensor]) -> None:
    zeroed = steps(example, causal=True, masked=lambda masked: masked.masked_fill(masked == -math.inf, 0.0))
    assert_close(zeroed["pattern"][0], [0.6413, 0.1196, 0.1196, 0.1196])


def test_a_query_sees_itself_and_the_past() -> None:
    assert causal_mask(5, 5, CPU).int().tolist() == torch.ones(5, 5).tril().int().tolist()
    assert causal_mask(5, 5, CPU).sum() == 15
    assert causal_mask(5, 5, CPU).sum(-1).tolist() == [1, 2, 3, 4, 5]


def test_queries_stand_at_the_last_positions() -> None:
    assert causal_mask(2, 5, CPU).int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert causal_mask(1, 4, CPU).all()


def random_heads(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 7), (3, 7), (6, 7), (7, 7)])
@pytest.mark.parametrize("causal", [True, False])
def test_fused_and_stepwise_agree_for_every_split_of_past_and_present(T: int, S: int, causal: bool) -> None:
    q_BHTK, k_BHSK, v_BHSK = (
        random_heads(2, 3, T, 8),
        random_heads(2, 3, S, 8, seed=1),
        random_heads(2, 3, S, 8, seed=2),
    )
    fused = fused_attention(q_BHTK, k_BHSK, v_BHSK, causal=causal)
    stepwise = stepwise_attention(q_BHTK, k_BHSK, v_BHSK, causal=causal, dropout=0.0, taps=NO_TAPS)
    torch.testing.assert_close(fused, stepwise, atol=1e-5, rtol=0)


def test_a_late_chunk_of_queries_attends_as_within_the_whole() -> None:
    q_BHTK, k_BHSK, v_BHSK = (random_heads(1, 2, 7, 8, seed=seed) for seed in range(3))
    whole = fused_attention(q_BHTK, k_BHSK, v_BHSK, causal=True)
    for start, stop in [(0, 3), (3, 5), (6, 7)]:
        chunk = fused_attention(q_BHTK[:, :, start:stop], k_BHSK[:, :, :stop], v_BHSK[:, :, :stop], causal=True)
        torch.testing.assert_close(chunk, whole[:, :, start:stop], atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_mask_fits_half_precision(dtype: torch.dtype) -> None:
    q_BHTK, k_BHSK, v_BHSK = (random_heads(1, 2, 5, 8, seed=seed).to(dtype) * 20 for seed in range(3))
    taps = Taps(record=["masked", "pattern"])
    out = stepwise_attention(q_BHTK, k_BHSK, v_BHSK, causal=True, dropout=0.0, taps=taps)
    assert out.dtype == dtype
    assert out.isfinite().all()
    assert not taps.recorded["pattern"].isnan().any()
    assert not taps.recorded["pattern"].triu(1).any()
    assert (taps.recorded["masked"].triu(1) == torch.full((5, 5), -math.inf).triu(1)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("point", ["scores", "scaled", "masked"])
def test_a_query_without_keys_takes_nothing_and_spoils_nothing(dtype: torch.dtype, point: str) -> None:
    heads = [random_heads(2, 3, 5, 8, seed=seed).to(dtype).requires_grad_() for seed in range(3)]

    def run(**replace: object) -> tuple[Tensor, Tensor, list[Tensor]]:
        taps = Taps(record=["pattern"], replace=replace)  # type: ignore[arg-type]
        out = stepwise_attention(*heads, causal=True, dropout=0.0, taps=taps)
        return (
            taps.recorded["pattern"],
            out,
            list(torch.autograd.grad(out[:, :, [0, 1, 4]].float().square().sum(), heads)),
        )

    blind = torch.tensor([False, False, True, True, False])[:, None]
    plain_pattern, plain_out, plain_gradients = run()
    pattern, out, gradients = run(**{point: lambda scores: scores.masked_fill(blind, -math.inf)})
    assert not pattern[:, :, 2:4].any()
    assert not out[:, :, 2:4].any()
    for ordinary in (0, 1, 4):
        assert torch.equal(pattern[:, :, ordinary], plain_pattern[:, :, ordinary])
        assert torch.equal(out[:, :, ordinary], plain_out[:, :, ordinary])
    for gradient, plain_gradient in zip(gradients, plain_gradients, strict=True):
        assert torch.equal(gradient, plain_gradient), "a loss on the others has the gradient it had"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_where_no_query_has_a_key_gradients_are_zero(dtype: torch.dtype) -> None:
    heads = [random_heads(1, 2, 4, 8, seed=seed).to(dtype).requires_grad_() for seed in range(3)]
    taps = Taps(replace={"masked": lambda masked: torch.full_like(masked, -math.inf) + masked})
    out = stepwise_attention(*heads, causal=True, dropout=0.0, taps=taps)
    out.float().sum().backward()
    assert not out.any()
    assert all(head.grad is not None and not head.grad.any() for head in heads)


def test_each_kv_head_serves_neighbouring_query_heads() -> None:
    x_BGSK = torch.arange(2.0).view(1, 2, 1, 1)
    assert share_heads(x_BGSK, 6).flatten().tolist() == [0, 0, 0, 1, 1, 1]
    assert share_heads(x_BGSK, 2) is x_BGSK


def test_the_lessons_first_milestone() -> None:
    layer = Attention(ModelConfig(d_model=64, n_heads=4, vocab_size=50), layer=0)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 16_640
    assert layer(random_heads(2, 8, 64), None, None, NO_TAPS).shape == (2, 8, 64)


@pytest.fixture
def layer_and_input() -> tuple[Attention, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Attention(ModelConfig(d_model=16, n_heads=4, vocab_size=5), layer=0), torch.randn(2, 8, 16)


def test_rows_of_the_pattern_sum_to_one_and_the_first_is_one_hot(layer_and_input: tuple[Attention, Tensor]) -> None:
    layer, x_BTD = layer_and_input
    taps = Taps(record=["pattern"])
    layer(x_BTD, None, None, taps)
    pattern_BHTS = taps.recorded["pattern"]
    assert pattern_BHTS.shape == (2, 4, 8, 8)
    torch.testing.assert_close(pattern_BHTS.sum(-1), torch.ones(2, 4, 8))
    assert torch.equal(pattern_BHTS[:, :, 0], torch.eye(8)[0].expand(2, 4, 8))
    assert not pattern_BHTS.triu(1).any()


def test_a_whole_layer_is_the_formula_written_out(layer_and_input: tuple[Attention, Tensor]) -> None:
    layer, x_BTD = layer_and_input
    q_BTD, k_BTD, v_BTD = (x_BTD @ layer.qkv.weight.mT + layer.qkv.bias).split(16, dim=-1)
    heads = []
    for head in range(4):
        span = slice(4 * head, 4 * head + 4)
        scores_BTS = q_BTD[..., span] @ k_BTD[..., span].mT / 2
        pattern_BTS = (scores_BTS + torch.full((8, 8), -math.inf).triu(1)).softmax(-1)
        heads.append(pattern_BTS @ v_BTD[..., span])
    expected = torch.cat(heads, dim=-1) @ layer.out.weight.mT + layer.out.bias
    torch.testing.assert_close(layer(x_BTD, None, None, NO_TAPS), expected, atol=1e-6, rtol=0)


def test_query_and_key_norm_keep_scores_in_range_whatever_the_weights_do() -> None:
    layer = Attention(ModelConfig(d_model=16, n_heads=4, vocab_size=5, qk_norm=True), layer=0)
    with torch.no_grad():
        layer.qkv.weight.mul_(1e4)
    taps = Taps(record=["q", "scaled"])
    layer(random_heads(2, 8, 16), None, None, taps)
    torch.testing.assert_close(taps.recorded["q"].norm(dim=-1), torch.full((2, 4, 8), 2.0), atol=1e-3, rtol=0)
    assert taps.recorded["scaled"].abs().max() <= 2.001  # sqrt(K)


def test_dropout_takes_attention_weights_in_training_only() -> None:
    q_BHTK, k_BHSK, v_BHSK = (random_heads(1, 1, 50, 8, seed=seed) for seed in range(3))
    config = ModelConfig(d_model=8, n_heads=1, vocab_size=5, dropout=0.5)
    layer = Attention(config, layer=0)
    for eager in (True, False):
        layer.eager = eager
        trained, again = (layer.train()._attend(q_BHTK, k_BHSK, v_BHSK, NO_TAPS) for _ in range(2))
        assert not torch.equal(trained, again)
        assert (trained[0, 0, 0] == 0).all() or torch.allclose(trained[0, 0, 0], 2 * v_BHSK[0, 0, 0])
        tested, repeated = (layer.eval()._attend(q_BHTK, k_BHSK, v_BHSK, NO_TAPS) for _ in range(2))
        assert torch.equal(tested, repeated)
        torch.testing.assert_close(tested, fused_attention(q_BHTK, k_BHSK, v_BHSK, causal=True), atol=1e-5, rtol=0)
