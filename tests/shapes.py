"""The run-time check of shapes in signatures: arrays alone, since everything else is mypy's to check."""

from collections.abc import Callable
from typing import Any, TypeVar

from beartype import beartype
from jaxtyping import AbstractArray

F = TypeVar("F", bound=Callable[..., Any])


def check_shapes(function: F) -> F:
    """Returns the function with the arrays among its arguments and results checked against their annotations."""
    if "<locals>" in function.__qualname__:
        return function  # made anew at each call of its parent, and the check with it, which takes milliseconds
    annotations = getattr(function, "__annotations__", {})
    function.__annotations__ = {name: kind if _is_array(kind) else Any for name, kind in annotations.items()}
    return beartype(function)


def _is_array(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, AbstractArray)
