"""What a plan says: the answer of every rule, the model with its costs, and other sizes at the same loss."""

from dataclasses import asdict, dataclass
from typing import Any

from nextok.scaling.budget import Budget
from nextok.scaling.covered import Counting
from nextok.scaling.tradeoffs import OtherSize, Served
from nextok.spec import Counts, ModelConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleAnswer:
    """What one rule makes of the budget."""

    rule: str
    source: str
    counting: Counting
    """What its N counts."""
    parameters: float
    """N."""
    tokens: float
    """D."""
    flops: float
    """C = 6 N D."""
    parameters_interval: tuple[float, float] | None
    """80 % interval of N at this compute; None where the source gives none, or N or D was given."""
    loss: float | None
    """Only inside the range of the rule's runs, or by a fit of one's own; None elsewhere."""
    loss_interval: tuple[float, float] | None
    loss_unit: str
    loss_of: str
    """The text and vocabulary that the loss is about; on others it is another number."""
    extrapolated_decades: float
    """From the nearest of the rule's runs, the farthest of N, D and C; 0 among them."""
    remark: str

    @property
    def tokens_per_parameter(self) -> float:
        """D / N."""
        return self.tokens / self.parameters

    @property
    def ratio_interval(self) -> tuple[float, float] | None:
        """80 % interval of D / N = C / (6 N^2)."""
        if self.parameters_interval is None:
            return None
        low, high = self.parameters_interval
        return self.tokens_per_parameter * (self.parameters / high) ** 2, self.tokens_per_parameter * (
            self.parameters / low
        ) ** 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Repetition:
    """What reading the user's text more than once means for this model."""

    unique_tokens: int
    epochs: float
    worth: float
    """Mean value of a token against a fresh one, by Muennighoff's law; 1 up to one epoch."""
    effective_tokens: float
    """Fresh tokens that it amounts to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedModel:
    """A model that can be built, and its training."""

    config: ModelConfig
    counts: Counts
    counting: Counting
    parameters: int
    """N under that count."""
    off_by: float
    """Difference from the rule's N, as a share of it."""
    embedding_share: float
    """Share of all parameters in tables and head."""
    tokens: int
    """Training tokens."""
    flops: float
    """Exact FLOPs a token, times tokens."""
    seconds: float
    """On the budget's devices at its speed."""
    seconds_at_published_mfu: tuple[float, float] | None
    """The same at the highest and the lowest MFU that published runs imply; None where no device
    was named or taken as an example."""
    memory_bytes: int
    """Weights, gradients, AdamW's moments and the activations of one sequence, in float32."""
    weight_bytes: int
    """float32 weights: the checkpoint that is kept."""
    checkpoint_bytes: int
    """Weights and AdamW's two moments: the checkpoint that resumes."""
    repetition: Repetition | None
    """None without a number of unique tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TradeOff:
    """Other sizes at the same loss, by one law."""

    law: str
    smaller: OtherSize | None
    served: Served | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The whole answer."""

    budget: Budget
    unique_tokens: int | None
    """Tokens of text there are, where that was said."""
    answers: tuple[RuleAnswer, ...]
    chosen: RuleAnswer
    """Of the rule that the model follows."""
    model: PlannedModel | None
    """None where no model of that size can be built; the notes say why."""
    tradeoffs: tuple[TradeOff, ...]
    algebra: tuple[str, ...]
    """The 20:1 rule with this budget's numbers."""
    notes: tuple[str, ...]
    """What a reader should know before believing it."""

    def to_mapping(self) -> dict[str, Any]:
        """Returns plain values with units in their names."""
        answers = [
            {**asdict(each), "tokens_per_parameter": each.tokens_per_parameter, "ratio_interval": each.ratio_interval}
            for each in self.answers
        ]
        return {**asdict(self), "answers": answers, "chosen": self.chosen.rule}
