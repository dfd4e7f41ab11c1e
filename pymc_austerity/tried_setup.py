"""Steps that are set up to be tried: what they learn of one model is learnt once, and a set-up may be given up."""

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Made = TypeVar("Made")


class SetupTooLongError(Exception):
    """A set-up was given up because it took longer than was allowed."""


class Shared:
    """What steps of one model have learnt."""

    def __init__(self) -> None:
        self.saved = 0.0  # seconds that were not spent because something had been learnt before
        # What was made, its seconds, and the objects that the key names by their addresses, which live as long.
        self.made: dict[Hashable, tuple[Any, float, Any]] = {}


_shared: ContextVar[Shared | None] = ContextVar("shared", default=None)
_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextmanager
def shared_setup() -> Iterator[Shared]:
    """Let steps that are built meanwhile share what they learn of one model, with those around that share it."""
    token = _shared.set(_shared.get() or Shared())
    try:
        yield _shared.get()  # type: ignore[misc]
    finally:
        _shared.reset(token)


def once(what: str, of: tuple[Any, ...], make: Callable[[], Made]) -> Made:
    """Make something of some objects, or return it where a step made it of the same and shares its set-up.

    Objects are taken for the same where they are one and the same, or equal numbers and texts.
    """
    shared = _shared.get()
    if shared is None:
        return make()
    key = (what, *(o if isinstance(o, str | float | int | tuple | None) else id(o) for o in of))
    if key in shared.made:
        made, seconds, _ = shared.made[key]
        shared.saved += seconds
    else:
        start = time.process_time()
        made = make()
        shared.made[key] = made, time.process_time() - start, of
    return made


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Give up what is set up meanwhile after so many seconds, at the next `check_time`, by a SetupTooLongError."""
    token = _deadline.set(min(_deadline.get(), time.process_time() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def check_time(seconds: float = 0.0) -> None:
    """Give up a set-up whose time is over, or would be after what takes so many seconds of processor time."""
    if time.process_time() + seconds > _deadline.get():
        raise SetupTooLongError
