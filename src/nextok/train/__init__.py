"""Training: steps, schedule, optimizer, the loop, resume. What it reads and writes belongs to lower rooms.

`run` is what `nextok train` calls; `resume` goes on where a run stopped.
"""

from nextok.train.config import RunOptions, TrainConfig, run_options
from nextok.train.events import Event, Finding, Hook, Logged, Message, Request, Sampled, Saved, StepDone
from nextok.train.processes import ALONE, Processes, joined
from nextok.train.resume import resume, saved_options
from nextok.train.run import RunResult, run

__all__ = [
    "ALONE",
    "Event",
    "Finding",
    "Hook",
    "Logged",
    "Message",
    "Processes",
    "Request",
    "RunOptions",
    "RunResult",
    "Sampled",
    "Saved",
    "StepDone",
    "TrainConfig",
    "joined",
    "resume",
    "run",
    "run_options",
    "saved_options",
]
