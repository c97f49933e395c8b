"""Every worked example in the order of the lessons."""

from nextok.lessons import (
    behaviour,
    caching,
    chinchilla,
    exercises,
    generation,
    gradients,
    in_context,
    mask,
    numpy_page,
    parallel,
    stacks,
    stretch,
    tables,
    tinygpt,
    training,
)
from nextok.lessons.threads import threads
from nextok.lessons.worked import Example, Worked

EXAMPLES: tuple[Example, ...] = (
    *stacks.EXAMPLES,
    *mask.EXAMPLES,
    *parallel.EXAMPLES,
    *tinygpt.EXAMPLES,
    *generation.EXAMPLES,
    *caching.EXAMPLES,
    *training.EXAMPLES,
    *tables.EXAMPLES,
    *chinchilla.EXAMPLES,
    *in_context.EXAMPLES,
    *numpy_page.EXAMPLES,
    *exercises.EXAMPLES,
    *gradients.EXAMPLES,
    *behaviour.EXAMPLES,
    *stretch.EXAMPLES,
)


def run(example: Example) -> Worked:
    """Returns the example, run; quick ones on one thread, which is faster for tensors so small (see `threads`)."""
    with threads(None if example.slow else 1):
        return example.run()
