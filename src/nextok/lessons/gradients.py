"""Beyond lesson B's page: its model's gradients by hand, checked against slopes, and ten steps of Adam down them."""

from collections.abc import Mapping

import numpy as np

from nextok.lessons.numpy_page import PAGE, page_loss, windows
from nextok.lessons.worked import Example, Fact, Grid, Worked, spelled
from nextok.reference import Adam, backward, lesson_b
from nextok.reference.ops import Array
from nextok.spec import ModelConfig


def _gradients() -> Worked:
    config, weights = lesson_b()
    inputs_1T, targets_1T = windows()
    _, grads = backward(config, weights, inputs_1T, targets_1T, PAGE)
    errors = _slope_errors(config, weights, grads, h=1e-6)
    worst = max(errors, key=errors.__getitem__)
    coarse = max(_slope_errors(config, weights, grads, h=1e-4).values())
    return Worked(
        question="How would you know that a backward pass written by hand is right?",
        answer="Push the weights a little: the loss must change by the gradient times the push.",
        facts=(
            Fact(what="parameters checked", expected=len(weights), computed=len(errors)),
            Fact(what="largest difference below 1e-7, pushed by 1e-6", expected=True, computed=errors[worst] < 1e-7),
            Fact(what="pushed by 1e-4 it is above 1e-3", expected=True, computed=coarse > 1e-3),
            Fact(
                what="unused positions get no gradient",
                expected=True,
                computed=not grads["embed.positions.weight"][inputs_1T.shape[1] :].any(),
            ),
        ),
        why=(
            "(L(w + h) - L(w - h)) / 2h is the slope but for terms in h^2, and needs nothing but the forward pass. In "
            f"float64 with h = 1e-6 it agrees with the hand-written gradient to {errors[worst]:.0e} (worst: {worst}). "
            f"With h = 1e-4 it is off by {coarse:.2f}: some ReLU was pushed across its corner, where there is no one "
            "slope. It takes two forward passes a direction, which is why training needs backpropagation."
        ),
    )


def _slope_errors(
    config: ModelConfig, weights: Mapping[str, Array], grads: Mapping[str, Array], h: float
) -> dict[str, float]:
    """Returns how far each gradient is from the slope of the loss, along one random direction a parameter."""
    rng, errors = np.random.default_rng(0), {}
    for name, weight in weights.items():
        along = rng.standard_normal(weight.shape)
        up, down = (page_loss(config, {**weights, name: weight + step * along}) for step in (h, -h))
        errors[name] = abs((up - down) / (2 * h) - float((grads[name] * along).sum()))
    return errors


def _adam() -> Worked:
    config, start = lesson_b()
    weights: Mapping[str, Array] = start
    optimizer, losses = Adam(lr=1e-3), []
    for _ in range(10):
        loss, grads = backward(config, weights, *windows(), PAGE)
        losses.append(loss)
        weights = optimizer.step(weights, grads)
    losses.append(page_loss(config, weights))
    moved = max(float(abs(weights[name] - start[name]).max()) for name in start)
    return Worked(
        question="Ten Adam steps at 1e-3 on one sequence of six tokens: does the loss fall at every step?",
        answer=f"Yes, from {spelled(losses[0])} to {spelled(losses[-1])}.",
        facts=(
            Fact(what="loss before", expected=4.6551, computed=losses[0], tolerance=5e-5),
            Fact(what="falls at every step", expected=True, computed=all(np.diff(losses) < 0)),
            Fact(
                what="largest move of a weight, in steps of 1e-3", expected=10.0, computed=moved / 1e-3, tolerance=0.5
            ),
        ),
        why=(
            "Adam divides each gradient by its own running size, so every weight moves about lr a step however small "
            "its gradient is. With one sequence to learn, all steps pull the same way. This is memorising, not "
            "language."
        ),
        grids=(
            Grid(
                title="Ten steps of Adam",
                columns=("steps done", "loss"),
                rows=tuple((str(step), f"{loss:.4f}") for step, loss in enumerate(losses)),
            ),
        ),
    )


EXAMPLES: tuple[Example, ...] = (
    Example(name="gradients", lesson="B, beyond", title="backpropagation by hand, checked", run=_gradients),
    Example(name="adam", lesson="B, beyond", title="ten steps of Adam in NumPy", run=_adam),
)
