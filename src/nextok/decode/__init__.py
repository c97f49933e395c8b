"""The `Decoder` protocol and everything from logits to text: sampler, stops, grammars, beams, drafts, batches.

No model, no torch, no files: any object that meets `Decoder` can be sampled, streamed and served.
"""

from nextok.decode.batch import Batch, BatchStats, Outcome
from nextok.decode.beam import Beam, BeamConfig, beam_search
from nextok.decode.chooser import Chooser
from nextok.decode.config import Overflow, SamplingConfig
from nextok.decode.constraint import Constraint
from nextok.decode.continuation import Continuation, Event, FinishReason, Generation
from nextok.decode.drafts import Drafter, ModelDrafter, NgramDrafter, agreement
from nextok.decode.explain import Candidate, Explanation
from nextok.decode.grammar import GrammarConstraint, grammar_constraint
from nextok.decode.logprobs import log_softmax, log_softmax_rows, token_logprob, token_logprobs, top_logprobs
from nextok.decode.loop import generate, stream
from nextok.decode.protocol import Decoder, TextSource
from nextok.decode.sampling import Distribution, Removal, distribution, draw
from nextok.decode.slots import Slots
from nextok.decode.speculation import Speculation, SpeculationConfig, SpeculationCounts
from nextok.decode.stop import StopText

__all__ = [
    "Batch",
    "BatchStats",
    "Candidate",
    "Continuation",
    "Decoder",
    "Distribution",
    "Event",
    "Explanation",
    "FinishReason",
    "Generation",
    "Outcome",
    "Overflow",
    "Removal",
    "SamplingConfig",
    "Slots",
    "StopText",
    "TextSource",
    "distribution",
    "draw",
    "generate",
    "log_softmax",
    "log_softmax_rows",
    "stream",
    "token_logprob",
    "token_logprobs",
    "top_logprobs",
    "Beam",
    "BeamConfig",
    "agreement",
    "beam_search",
    "Chooser",
    "Constraint",
    "Drafter",
    "ModelDrafter",
    "NgramDrafter",
    "GrammarConstraint",
    "grammar_constraint",
    "Speculation",
    "SpeculationConfig",
    "SpeculationCounts",
]
