"""The model: the lesson's numbers, the hook points, and the laws that hold for every choice of parts."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from nextok.errors import ConfigError, InputError
from nextok.model import GPT, build, next_token_loss
from nextok.model.attention import share_heads
from nextok.model.gpt import IGNORED, check_ids
from nextok.spec import ModelConfig, hook_names, preset_config

# --- the lesson's TinyGPT

LESSON = {"n_layers": 2, "d_model": 64, "n_heads": 4, "context": 8, "vocab_size": 50}
LESSON |= {"mlp": "gelu", "tied_head": False, "init": "torch"}
PROMPT = [5, 12, 3]
GREEDY = [5, 12, 3, 42, 2, 38, 35, 35]
LOSSES = (
    [4.0511, 3.8818, 3.7180, 3.5600, 3.4078, 3.2616, 3.1209, 2.9855, 2.8549, 2.7282]
    + [2.6049, 2.4842, 2.3656, 2.2486, 2.1332, 2.0193, 1.9070, 1.7968, 1.6889, 1.5836]
)  # fmt: skip


@pytest.fixture(scope="module")
def tiny() -> GPT:
    return build(preset_config("lesson-a"), seed=42)


def greedy(model: GPT, ids: list[int], new: int) -> list[int]:
    """Returns the ids with the likeliest next ones, computed anew from the last `context` ids each time."""
    ids = list(ids)
    with torch.inference_mode():
        for _ in range(new):
            ids.append(int(model(torch.tensor([ids[-model.config.context :]]))[0, -1].argmax()))
    return ids


def train_as_the_lesson_does(steps: int, **parts: object) -> tuple[GPT, list[float], Tensor]:
    """Returns the model after Adam on one batch of random ids drawn right after its weights, and the losses."""
    config = ModelConfig(**{**LESSON, **parts})
    with torch.random.fork_rng():
        torch.manual_seed(42)
        model = GPT(config)
        window_BT = torch.randint(0, 50, (8, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        loss = next_token_loss(model(window_BT[:, :-1]), window_BT[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses, window_BT


def test_the_lesson_model_has_its_size_and_shape(tiny: GPT) -> None:
    assert sum(parameter.numel() for parameter in tiny.parameters()) == 107_008
    assert tiny(torch.zeros(2, 8, dtype=torch.int64)).shape == (2, 8, 50)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_lesson_model_continues_as_printed_in_every_precision(dtype: torch.dtype) -> None:
    model = build(preset_config("lesson-a"), seed=42).to(dtype)
    assert greedy(model, PROMPT, 5) == GREEDY


def test_past_the_context_the_lesson_model_slides_and_repeats_itself(tiny: GPT) -> None:
    assert greedy(tiny, PROMPT, 20) == [*GREEDY, *[35] * 5, 4, 34, *[17] * 8]


@pytest.mark.parametrize(
    ("length", "new", "probability", "second", "second_probability", "margin"),
    [
        (3, 42, 0.0435, 20, 0.0359, 0.192),
        (4, 2, 0.0509, 48, 0.0491, 0.038),
        (5, 38, 0.1318, 34, 0.0524, 0.923),
        (6, 35, 0.0709, 18, 0.0522, 0.306),
        (7, 35, 0.0657, 6, 0.0391, 0.520),
    ],
)
def test_each_step_of_the_lessons_generation(
    tiny: GPT, length: int, new: int, probability: float, second: int, second_probability: float, margin: float
) -> None:
    logits_V = tiny(torch.tensor([GREEDY[:length]]))[0, -1]
    best = logits_V.softmax(-1).topk(2)
    assert best.indices.tolist() == [new, second]
    assert best.values.tolist() == pytest.approx([probability, second_probability], abs=5.1e-5)
    assert (logits_V[new] - logits_V[second]).item() == pytest.approx(margin, abs=5.1e-4)


def test_the_lessons_first_distribution(tiny: GPT) -> None:
    logits_V = tiny(torch.tensor([PROMPT]))[0, -1]
    probabilities_V = logits_V.softmax(-1)
    assert -(probabilities_V * probabilities_V.log()).sum().item() == pytest.approx(3.838, abs=5.1e-4)
    reached = probabilities_V.sort(descending=True).values.cumsum(-1)
    assert int((reached < 0.9).sum()) + 1 == 41
    at_temperature = [(logits_V / temperature).softmax(-1)[42].item() for temperature in (0.5, 1.0, 2.0)]
    assert at_temperature == pytest.approx([0.0822, 0.0435, 0.0301], abs=5.1e-5)


def test_the_lessons_twenty_steps() -> None:
    model, losses, window_BT = train_as_the_lesson_does(20)
    assert losses == pytest.approx(LOSSES, abs=5.1e-5)
    assert window_BT[1].tolist() == [23, 11, 3, 33, 18, 0, 32, 43]
    assert greedy(model, PROMPT, 5) == [5, 12, 3, 33, 18, 0, 32, 43], "it continues as its second training row does"


def test_four_digits_tell_the_two_gelus_apart() -> None:
    losses = train_as_the_lesson_does(20, mlp="gelu_tanh")[1]
    assert [losses[9], losses[19]] == pytest.approx([2.7283, 1.5837], abs=5.1e-5)


def test_losses_on_random_ids_do_not_show_a_missing_mask() -> None:
    losses = train_as_the_lesson_does(20, mask="none")[1]
    assert [losses[step - 1] for step in (1, 5, 10, 20)] == pytest.approx([4.0547, 3.4379, 2.7803, 1.6456], abs=5.1e-5)


def test_a_tied_head_under_torch_weights_starts_far_too_sure() -> None:
    window_BT = train_as_the_lesson_does(0)[2]
    tied = build(ModelConfig(**{**LESSON, "tied_head": True}), seed=42)
    assert next_token_loss(tied(window_BT[:, :-1]), window_BT[:, 1:]).item() == pytest.approx(42.6, abs=0.05)


def test_a_position_that_no_input_reaches_gets_no_gradient(tiny: GPT) -> None:
    model = build(tiny.config, seed=0)
    next_token_loss(model(torch.zeros(2, 7, dtype=torch.int64)), torch.ones(2, 7, dtype=torch.int64)).backward()
    rows = model.embed.positions.weight.grad.abs().sum(-1)
    assert (rows[:7] > 0).all()
    assert rows[7] == 0


# --- laws for every choice of parts


def some_ids(config: ModelConfig, batch: int = 3, length: int = 9) -> Tensor:
    ids_BT = torch.randint(0, config.vocab_size, (batch, config.context), generator=torch.Generator().manual_seed(5))
    return ids_BT[:, :length]


def assert_close(actual: Tensor, expected: Tensor, within: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, atol=within, rtol=1e-5)


def test_attention_step_by_step_gives_the_fused_logits(any_model: GPT) -> None:
    ids_BT = some_ids(any_model.config)
    fused_BTV = any_model(ids_BT)
    any_model.use_eager_attention()
    assert_close(any_model(ids_BT), fused_BTV)
    any_model.use_eager_attention(eager=False)
    assert torch.equal(any_model(ids_BT), fused_BTV)


def expected_shape(name: str, config: ModelConfig, B: int, T: int) -> tuple[int, ...]:
    H, G, K = config.n_heads, config.n_kv_heads, config.d_head
    point = name.split(".", 2)[2] if name.startswith("blocks.") else name
    own = {
        "embed.positions": (T, config.d_model),
        "attn.q": (B, H, T, K),
        "attn.k": (B, G, T, K),
        "attn.v": (B, G, T, K),
        "attn.mixed": (B, H, T, K),
        "mlp.pre": (B, T, config.up_width),
        "mlp.post": (B, T, config.d_ff),
        "logits": (B, T, config.vocab_size),
    }
    if point in ("attn.scores", "attn.scaled", "attn.masked", "attn.pattern"):
        return (B, H, T, T)
    return own.get(point, (B, T, config.d_model))


def test_tracing_every_point_shows_its_value_and_changes_no_bit(any_model: GPT) -> None:
    ids_BT = some_ids(any_model.config)
    plain_BTV = any_model(ids_BT)
    traced = any_model.trace(ids_BT, ["*"])
    assert list(traced) == hook_names(any_model.config)
    shapes = {name: tuple(value.shape) for name, value in traced.items()}
    assert shapes == {name: expected_shape(name, any_model.config, 3, 9) for name in traced}
    assert torch.equal(traced["logits"], plain_BTV)
    assert torch.equal(any_model(ids_BT), plain_BTV)


def test_traced_values_are_each_others_formula(any_model: GPT) -> None:
    config, traced = any_model.config, any_model.trace(some_ids(any_model.config), ["*"])
    for layer in range(config.n_layers):
        at = {name.split(".", 2)[2]: value for name, value in traced.items() if name.startswith(f"blocks.{layer}.")}
        q, k, v = at["attn.q"], *(share_heads(at[f"attn.{kind}"], config.n_heads) for kind in "kv")
        assert_close(at["attn.scores"], q @ k.mT)
        assert_close(at["attn.scaled"], at["attn.scores"] / math.sqrt(config.d_head))
        assert_close(at["attn.masked"], at["attn.scaled"] + torch.full((9, 9), -math.inf).triu(1))
        assert_close(at["attn.pattern"], at["attn.masked"].softmax(-1))
        assert_close(at["attn.mixed"], at["attn.pattern"] @ v)
        if config.norm_placement == "before":
            assert_close(at["resid_mid"], at["resid_pre"] + at["attn.out"])
            assert_close(at["resid_post"], at["resid_mid"] + at["mlp.out"])
        else:
            norm1, norm2 = any_model.blocks[layer].norm1, any_model.blocks[layer].norm2
            assert_close(at["resid_mid"], norm1(at["resid_pre"] + at["attn.out"]))
            assert_close(at["resid_post"], norm2(at["resid_mid"] + at["mlp.out"]))


def test_tracing_in_training_leaves_the_draws_of_dropout_alone() -> None:
    model = build(ModelConfig(vocab_size=11, dropout=0.5, d_model=16, n_layers=2), seed=0).train()
    ids_BT = some_ids(model.config)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        plain_BTV = model(ids_BT)
        torch.manual_seed(3)
        assert torch.equal(model.trace(ids_BT, ["*"])["logits"], plain_BTV)


def test_patterns_and_names_are_traced_in_forward_order(tiny: GPT) -> None:
    traced = tiny.trace(torch.tensor([PROMPT]), ["logits", "blocks.*.attn.pattern"])
    assert list(traced) == ["blocks.0.attn.pattern", "blocks.1.attn.pattern", "logits"]
    with pytest.raises(ConfigError, match=r"no hook point 'blocks\.2\.norm1'"):
        tiny.trace(torch.tensor([PROMPT]), ["blocks.2.norm1"])
    with pytest.raises(ConfigError, match="no hook point 'logit'"), tiny.replace({"logit": torch.zeros_like}):
        pass


def test_replacing_every_value_by_itself_keeps_the_logits(any_model: GPT) -> None:
    ids_BT = some_ids(any_model.config)
    plain_BTV = any_model(ids_BT)
    with any_model.replace({"*": lambda value: value}):
        assert_close(any_model(ids_BT), plain_BTV)
    assert torch.equal(any_model(ids_BT), plain_BTV)


def test_zeroing_any_value_changes_the_logits(any_model: GPT) -> None:
    ids_BT = some_ids(any_model.config)
    plain_BTV = any_model(ids_BT)
    for name in hook_names(any_model.config):
        with any_model.replace({name: torch.zeros_like}):
            assert (any_model(ids_BT) - plain_BTV).abs().max() > 1e-3, name
    assert torch.equal(any_model(ids_BT), plain_BTV)


def test_replacements_nest_and_the_inner_one_wins_until_it_ends(tiny: GPT) -> None:
    ids_BT = torch.tensor([PROMPT])
    plain_BTV = tiny(ids_BT)
    with tiny.replace({"embed": torch.zeros_like}):
        empty_BTV = tiny(ids_BT)
    with tiny.replace({"logits": lambda logits: logits + 1, "embed": lambda x: x}):
        with tiny.replace({"logits": lambda logits: logits * 0}):
            assert not tiny(ids_BT).any()
        assert torch.equal(tiny(ids_BT), plain_BTV + 1)
        with tiny.replace({"embed": torch.zeros_like}):
            assert torch.equal(tiny(ids_BT), empty_BTV + 1), "what the inner one does not name stays replaced"
        with pytest.raises(ZeroDivisionError), tiny.replace({"log*": torch.zeros_like}):
            raise ZeroDivisionError
        assert torch.equal(tiny(ids_BT), plain_BTV + 1)
        assert torch.equal(tiny.trace(ids_BT, ["logits"])["logits"], plain_BTV + 1)
    assert torch.equal(tiny(ids_BT), plain_BTV)


def test_a_replaced_mask_can_open_the_future_as_no_mask_does() -> None:
    sizes = {"n_layers": 1, "d_model": 16, "vocab_size": 11}
    causal, open_model = (build(ModelConfig(**sizes, mask=mask), seed=0) for mask in ("causal", "none"))
    ids_BT = some_ids(causal.config)
    open_BTV = open_model(ids_BT)
    unmasked = causal.trace(ids_BT, ["blocks.0.attn.scaled"])["blocks.0.attn.scaled"]
    assert not torch.allclose(causal(ids_BT), open_BTV, atol=1e-6)
    with causal.replace({"blocks.0.attn.masked": lambda _: unmasked}):
        assert_close(causal(ids_BT), open_BTV, within=1e-6)


def test_rows_of_a_batch_do_not_see_each_other(any_model: GPT) -> None:
    ids_BT = some_ids(any_model.config)
    together_BTV = any_model(ids_BT)
    for row in range(3):
        assert_close(any_model(ids_BT[row : row + 1])[0], together_BTV[row])
    assert_close(any_model(ids_BT.flip(0)), together_BTV.flip(0))


def test_a_forward_pass_changes_no_weight(any_model: GPT) -> None:
    before = {name: value.clone() for name, value in any_model.state_dict().items()}
    any_model(some_ids(any_model.config))
    assert all(torch.equal(value, before[name]) for name, value in any_model.state_dict().items())


@pytest.mark.parametrize("tokens", [0, 13])
def test_a_sequence_that_does_not_fit_is_refused_with_both_counts(any_model: GPT, tokens: int) -> None:
    context = any_model.config.context
    ids_BT = torch.zeros(1, tokens and context + 1, dtype=torch.int64)
    with pytest.raises(InputError) as caught:
        any_model(ids_BT)
    assert caught.value.message == f"The model was given {ids_BT.shape[1]} tokens; it takes 1 to {context}."
    with pytest.raises(InputError, match=f"{ids_BT.shape[1]} tokens"):
        any_model.trace(ids_BT, ["logits"])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("id", [-1, 50, 999])
def test_an_id_outside_the_vocabulary_is_refused_by_name(tiny: GPT, id: int, dtype: torch.dtype) -> None:
    ids_BT = torch.tensor([[0, 49], [id, 3]], dtype=dtype)
    for call in (lambda: tiny(ids_BT), lambda: tiny.trace(ids_BT, ["logits"])):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.message == f"Token id {id} is not in 0 to 49, the model's vocabulary."


def test_ids_on_another_device_are_not_waited_for() -> None:
    check_ids(torch.empty(1, 3, dtype=torch.int64, device="meta"), 50)  # has no values: to look at one would raise


def test_a_batch_without_rows_is_a_batch(tiny: GPT) -> None:
    assert tiny(torch.zeros(0, 3, dtype=torch.int64)).shape == (0, 3, 50)


def test_one_token_and_a_full_context_fit(any_model: GPT) -> None:
    for length in (1, any_model.config.context):
        assert any_model(some_ids(any_model.config, length=length)).shape[1] == length


def test_dropout_is_off_in_evaluation_and_on_in_training() -> None:
    sizes = {"n_layers": 2, "d_model": 16, "n_heads": 4, "vocab_size": 11}
    model, plain = (build(ModelConfig(**sizes, dropout=dropout), seed=0) for dropout in (0.5, 0.0))
    ids_BT = some_ids(model.config)
    for eager in (False, True):
        model.use_eager_attention(eager=eager)
        plain.use_eager_attention(eager=eager)
        assert not torch.equal(model.train()(ids_BT), model(ids_BT))
        assert torch.equal(model.eval()(ids_BT), model(ids_BT))
        assert torch.equal(model(ids_BT), plain(ids_BT)), "a validation loss does not depend on dropout"


def test_dropout_takes_from_the_embedding_too() -> None:
    model = build(ModelConfig(vocab_size=11, dropout=0.5, context=12), seed=0).train()
    traced = model.trace(some_ids(model.config), ["embed", "blocks.0.resid_pre"])
    kept = traced["blocks.0.resid_pre"] != 0
    torch.testing.assert_close(traced["blocks.0.resid_pre"][kept], 2 * traced["embed"][kept])
    assert 0.4 < kept.float().mean() < 0.6


def test_a_block_that_normalises_its_output_has_no_norm_at_the_end() -> None:
    model = build(ModelConfig(vocab_size=5, norm_placement="after"), seed=0)
    ids_BT = torch.tensor([[1, 2]])
    assert model.final_norm is None
    last = model.trace(ids_BT, ["blocks.3.resid_post"])["blocks.3.resid_post"]
    assert torch.equal(model(ids_BT), F.linear(last, model.embed.tokens.weight))


def test_rotary_logits_depend_on_distances_and_learned_ones_on_places(any_model: GPT) -> None:
    ids_BT = some_ids(any_model.config, length=5)
    at_0, at_3 = any_model.hidden(ids_BT), any_model.hidden(ids_BT, torch.arange(3, 8))
    same = torch.allclose(at_0, at_3, atol=1e-4)
    assert same == (any_model.config.position == "rope")


def test_logits_are_capped_softly() -> None:
    sizes = {"n_layers": 1, "d_model": 16, "vocab_size": 11}
    capped, free = (build(ModelConfig(**sizes, logit_softcap=cap), seed=0) for cap in (2.0, 0.0))
    with torch.no_grad():
        for model in (capped, free):
            model.embed.tokens.weight.mul_(100)
    ids_BT = some_ids(free.config)
    assert free(ids_BT).abs().max() > 4
    assert capped(ids_BT).abs().max() <= 2
    assert_close(capped(ids_BT), 2 * torch.tanh(free(ids_BT) / 2))


def test_a_tied_head_is_the_embedding_and_gets_the_gradients_of_both() -> None:
    sizes = {"n_layers": 1, "d_model": 16, "vocab_size": 11}
    tied, untied = (build(ModelConfig(**sizes, tied_head=tied), seed=0) for tied in (True, False))
    untied.load_state_dict({**tied.state_dict(), "head.weight": tied.embed.tokens.weight.detach().clone()})
    inputs_BT, targets_BT = torch.tensor([[1, 2, 3]]), torch.tensor([[2, 3, 4]])
    for model in (tied, untied):
        next_token_loss(model(inputs_BT), targets_BT).backward()
    assert tied.head is None
    assert "head.weight" not in dict(tied.named_parameters())
    table_VD, head_VD = untied.embed.tokens.weight.grad, untied.head.weight.grad
    assert_close(tied.embed.tokens.weight.grad, table_VD + head_VD, within=1e-7)
    assert not table_VD[7].any(), "an id that is no input gets its gradient from the head alone"
    assert head_VD[7].any()


def test_every_weight_gets_a_finite_gradient(any_model: GPT) -> None:
    length = any_model.config.context
    ids_BT = some_ids(any_model.config, batch=4, length=length)
    next_token_loss(any_model(ids_BT), ids_BT.roll(-1, dims=1)).backward()
    for name, parameter in any_model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("eager", [True, False])
def test_half_precision_stays_near_and_finite(any_model: GPT, dtype: torch.dtype, eager: bool) -> None:
    ids_BT = some_ids(any_model.config)
    full_BTV = any_model(ids_BT)
    any_model.to(dtype).use_eager_attention(eager=eager)
    half_BTV = any_model(ids_BT)
    assert half_BTV.dtype == dtype
    assert half_BTV.isfinite().all()
    error = (half_BTV.float() - full_BTV).abs().max() / full_BTV.abs().max()
    assert error < (0.02 if dtype == torch.float16 else 0.15)


# --- the loss


def test_the_loss_of_three_tokens_by_hand() -> None:
    # probabilities of the targets: 1/4, 1/2, 1
    logits_BTV = torch.tensor([[[0.0, math.log(2), 0.0], [math.log(2), 0.0, 0.0], [0.0, 0.0, 200.0]]])
    targets_BT = torch.tensor([[0, 0, 2]])
    assert next_token_loss(logits_BTV, targets_BT).item() == pytest.approx(math.log(8) / 3)
    assert next_token_loss(logits_BTV, targets_BT, reduction="sum").item() == pytest.approx(math.log(8))


def test_ignored_targets_count_neither_above_nor_below_the_line() -> None:
    logits_BTV = torch.tensor([[[0.0, math.log(2), 0.0], [50.0, 0.0, 0.0]]])
    assert next_token_loss(logits_BTV, torch.tensor([[0, IGNORED]])).item() == pytest.approx(math.log(4))
    assert next_token_loss(logits_BTV, torch.tensor([[0, IGNORED]]), reduction="sum").item() == pytest.approx(
        math.log(4)
    )


def test_the_loss_stays_exact_where_a_probability_is_below_every_float() -> None:
    assert next_token_loss(torch.tensor([[[0.0, 1000.0]]]), torch.tensor([[0]])).item() == 1000.0


def test_half_precision_logits_are_summed_in_float32() -> None:
    logits_BTV = torch.zeros(1, 1, 50_000, dtype=torch.float16)
    loss = next_token_loss(logits_BTV, torch.tensor([[3]]))
    assert (loss.dtype, loss.item()) == (torch.float32, pytest.approx(math.log(50_000), abs=1e-4))


@pytest.mark.parametrize("shape", [(2, 6), (2, 8), (1, 7), (14,)])
def test_targets_that_were_shifted_again_are_refused_with_the_rule(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"Targets of shape .* do not fit logits of \[2, 7, 5\]") as caught:
        next_token_loss(torch.zeros(2, 7, 5), torch.zeros(shape, dtype=torch.int64))
    assert "inputs = window[:-1], targets = window[1:]" in caught.value.hint


def test_a_model_that_memorised_a_cycle_says_the_next_letter_not_the_one_after() -> None:
    cycle_T = torch.arange(8) % 3
    model = build(ModelConfig(n_layers=1, d_model=16, context=8, vocab_size=3), seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = next_token_loss(model(cycle_T[None, :-1]), cycle_T[None, 1:])
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    assert greedy(model, [0, 1], 4) == [0, 1, 2, 0, 1, 2]
