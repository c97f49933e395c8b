"""What every error promises: a slug of its own, an exit code, and one sentence that says what came and what to do."""

import inspect
import pickle
import re

import pytest

from nextok import errors
from nextok.errors import InputError, NextokError

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, NextokError)]


def test_slugs_are_unique_and_can_stand_in_an_address() -> None:
    slugs = [kind.slug for kind in KINDS]
    assert len(set(slugs)) == len(slugs)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", slug) for slug in slugs)


@pytest.mark.parametrize("kind", KINDS)
def test_the_exit_code_says_whose_fault_it_was(kind: type[NextokError]) -> None:
    assert kind.exit_code == (2 if issubclass(kind, InputError) else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_says_in_one_docstring_line_what_it_means(kind: type[NextokError]) -> None:
    assert inspect.getdoc(kind)
    assert "slug" in vars(kind), "a slug that is inherited cannot be told from its parent's"


def test_message_and_hint_are_printed_as_one_line() -> None:
    error = InputError("The file a.txt is empty.", "Give a file with text.")
    assert (error.message, error.hint) == ("The file a.txt is empty.", "Give a file with text.")
    assert str(error) == "The file a.txt is empty. Give a file with text."


def test_without_a_hint_nothing_trails() -> None:
    assert str(NextokError("It failed.")) == "It failed."


def test_message_and_hint_survive_the_way_out_of_a_worker_process() -> None:
    error = pickle.loads(pickle.dumps(InputError("What came.", "What to do.")))  # noqa: S301 - our own bytes
    assert (type(error), error.message, error.hint) == (InputError, "What came.", "What to do.")


def test_a_user_mistake_is_caught_as_a_project_error() -> None:
    with pytest.raises(NextokError):
        raise errors.UnknownCharacterError("'d' is not in the vocabulary.")
