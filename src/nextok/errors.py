"""Every error a user can cause or meet, one class a kind.

The message says what was being done and what came; the hint says what to do next. Library code raises these and
never prints or exits: `nextok.cli` turns them into one sentence and an exit code. `docs/errors.md` lists the slugs.
"""

from typing import ClassVar


class NextokError(Exception):
    """A failure that was not the user's doing, told in one sentence.

    Args:
        message: What was being done, with the value that came.
        hint: What to do next; empty where nothing can be done.
    """

    slug: ClassVar[str] = "failure"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class InputError(NextokError):
    """The user's input cannot be used as it is; nothing was started."""

    slug = "bad-input"
    exit_code = 2


class ConfigError(InputError):
    """An option has an unknown name, a wrong type or a value out of range."""

    slug = "bad-option"


class ModelConfigError(ConfigError):
    """The numbers of a model do not fit together."""

    slug = "bad-model"


class CorpusError(InputError):
    """The text to train on is missing, unreadable, empty or too short."""

    slug = "bad-corpus"


class TokenizerError(InputError):
    """A tokenizer cannot be built, read, or used for this text or model."""

    slug = "bad-tokenizer"


class UnknownCharacterError(TokenizerError):
    """The text holds a character that a character vocabulary does not have."""

    slug = "unknown-character"


class PromptError(InputError):
    """A prompt or a generation request that cannot be served."""

    slug = "bad-prompt"


class CheckpointError(InputError):
    """A run directory or checkpoint is missing, cut short, or of another kind."""

    slug = "bad-checkpoint"


class MissingExtraError(InputError):
    """The input needs an optional package that is not installed."""

    slug = "missing-extra"


class NonFiniteError(NextokError):
    """Loss, gradient or logits became NaN or infinite."""

    slug = "non-finite"


class DiskError(NextokError):
    """A file could not be written: the disk is full or the folder is not writable."""

    slug = "disk"


class DownloadError(NextokError):
    """A named download failed: no network, or not the file it should be."""

    slug = "no-download"
