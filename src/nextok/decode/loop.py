"""Generation from prompts to text: one at a time as events, or many at once.

Both are a `Batch` with its `Continuation`s; nothing here decides what comes next.
"""

from collections.abc import Generator, Sequence

from nextok.decode.batch import Batch, Outcome
from nextok.decode.config import SamplingConfig
from nextok.decode.continuation import Event, Generation
from nextok.decode.protocol import Decoder, TextSource
from nextok.decode.sampling import Ids
from nextok.errors import NextokError


def stream(
    decoder: Decoder,
    tokenizer: TextSource | None,
    prompt_ids: Ids,
    config: SamplingConfig,
    *,
    choice: int = 0,
    slot: int = 0,
    explain: bool = False,
) -> Generator[Event, None, None]:
    """Returns the events of one continuation, a token each, made as they are asked for.

    The texts of the events are together the text of `generate`. Closing the generator early frees the slot. The prompt
    is checked by this call, before the first event is asked for.

    Args:
        decoder: The model.
        tokenizer: Makes the text; None gives ids alone.
        prompt_ids: Ids of the prompt; where empty, it starts from end of text.
        config: The options.
        choice: Which of the prompt's continuations, from 0; `config.n` is not looked at.
        slot: The slot to use, nobody else's meanwhile.
        explain: Put an explanation in every event.

    Raises:
        PromptError: if the prompt cannot be served, or bans leave no token.
        ConfigError: if an option does not fit the vocabulary.
        NonFiniteError: if the model's logits are not a distribution.
    """
    batch = Batch(decoder, tokenizer, slots=(slot,), chunk=decoder.context)  # nobody else is held up
    batch.submit(prompt_ids, config, choice=choice, explain=explain)
    return _events(batch)


def generate(
    decoder: Decoder, tokenizer: TextSource | None, prompts: Sequence[Ids], config: SamplingConfig
) -> list[list[Generation]]:
    """Returns for each prompt its `config.n` continuations, run on all slots of the decoder.

    Each is what it would be alone, as far as the decoder's logits are: a draw depends on (seed, choice, position), and
    no prompt is padded. What prompts and choices have in common is read once.

    Raises:
        PromptError: if one of the prompts cannot be served, or bans leave no token; nothing has run in the first case.
        ConfigError: if an option does not fit the vocabulary.
        NonFiniteError: if the model's logits are not a distribution.
    """
    with Batch(decoder, tokenizer, chunk=decoder.context) as batch:
        table = [[batch.submit(ids, config, choice=choice) for choice in range(config.n)] for ids in prompts]
        while batch.busy:
            for outcome in batch.step():
                _event(outcome)
    return [[continuation.generation() for continuation in row] for row in table]


def _events(batch: Batch) -> Generator[Event, None, None]:
    with batch:
        while batch.busy:
            for outcome in batch.step():
                yield _event(outcome)


def _event(outcome: Outcome) -> Event:
    _, event = outcome
    if isinstance(event, NextokError):
        raise event
    return event
