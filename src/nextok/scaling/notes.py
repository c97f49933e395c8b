"""What a reader should know before believing a plan."""

from nextok.scaling.buildable import EMBEDDING_SHARE
from nextok.scaling.covered import Counting
from nextok.scaling.planned import PlannedModel, Repetition, RuleAnswer

_FREE_EPOCHS = 4  # repeated data is worth nearly as much as new up to here (Muennighoff et al. 2023)


def notes_on(answer: RuleAnswer, model: PlannedModel | None, counting: Counting) -> tuple[str, ...]:
    """Returns what should be known of the rule that was followed and of the model that came out."""
    found = [_extrapolation(answer), _counting(answer, counting)]
    if model is not None:
        found += [_embeddings(model), _exact_cost(model), _repeated(model.repetition)]
    return tuple(note for note in found if note)


def _extrapolation(answer: RuleAnswer) -> str:
    if answer.extrapolated_decades < 0.05:
        return ""
    own = answer.rule == "own-fit"
    return f"The rule {answer.rule} is extrapolated by {answer.extrapolated_decades:.1f} decades from its runs." + (
        "" if own else " A sweep on your own machine and text (nextok fit) tells more."
    )


def _counting(answer: RuleAnswer, counting: Counting) -> str:
    if counting == answer.counting:
        return ""
    return f"N is read as {counting} here; {answer.rule} was fitted to N as {answer.counting}."


def _embeddings(model: PlannedModel) -> str:
    if model.embedding_share <= EMBEDDING_SHARE:
        return ""
    others = f"{model.counts.parameters:,} in all, {model.counts.non_embedding_parameters:,} without tables"
    return (
        f"Tables and head are {model.embedding_share:.0%} of the parameters ({others}): rules fitted to large models, "
        "where they are a few percent, say little here. A smaller --vocab-size helps."
    )


def _exact_cost(model: PlannedModel) -> str:
    ratio = model.counts.training_flops_per_token / (6 * model.parameters)
    if abs(ratio - 1) < 0.02:
        return ""
    return (
        f"A token costs {ratio:.2f} times 6 N exactly (attention adds, look-ups cost nothing), so tokens and time "
        "follow the exact count."
    )


def _repeated(repetition: Repetition | None) -> str:
    if repetition is None or repetition.epochs <= _FREE_EPOCHS:
        return ""
    return (
        f"The text is read {repetition.epochs:,.1f} times. Muennighoff's law was fitted with dropout 0.1 and weight "
        "decay 0.1 and never turns upwards; a small model on a small text learns it by heart, and its validation loss "
        "does."
    )
