"""Room for calls that go deep, as those of a compiler do."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
Returned = TypeVar("Returned")

#: Entries of a frame that fill half of what is mapped for it, 2 MB, and leave the other half to what it calls.
_ENTRIES = 2**17


def goes_deep(function: Callable[P, Returned]) -> Callable[P, Returned]:
    """Let calls below a function find the memory for their frames in one piece.

    CPython keeps frames in pieces of 16 KB: it has the system map another one where a call goes past the end, and unmap
    it when that call returns.  A loop of calls across an end does so at every turn, for 8 µs in place of 40 ns, and
    where ends are is by chance.  numba and PyTensor, whose calls are a hundred deep, spend a twentieth of their time on
    it.  A frame that says it needs more entries than a piece has gets a larger one, whose rest serves what it calls;
    memory that nobody touches costs nothing.
    """

    def with_room(*arguments: P.args, **named: P.kwargs) -> Returned:
        return function(*arguments, **named)

    with_room.__code__ = with_room.__code__.replace(co_stacksize=_ENTRIES)
    return wraps(function)(with_room)
