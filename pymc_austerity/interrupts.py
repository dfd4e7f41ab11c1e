"""Signals while compiled code runs: handed on when it is done."""

from __future__ import annotations

# `signal` itself spends microseconds on the names of what it returns.
import _signal  # type: ignore[import-not-found]
from collections.abc import Callable
from threading import get_ident, main_thread
from types import FrameType
from typing import Any

_NUMBERS = (_signal.SIGINT, _signal.SIGTERM)


def uninterrupted(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a compiled function; a Ctrl-C meanwhile is raised when it has returned.

    Named tuples, tuples of arrays and generators are converted by Python code, in which a handler of a signal that
    arrived while the function ran would raise: in the middle of numba's code, which ends the process by a segmentation
    fault, raises SystemError, or forgets it.  So whatever compiled function Python calls in the main thread is called
    by this one, but those that return a number or nothing.

    Parameters
    ----------
    call : callable
        Of short duration: nothing interrupts compiled code, with this or without.
    *arguments

    Returns
    -------
    object
        What the call returns.
    """
    if get_ident() != main_thread().ident:  # where Python runs no handlers
        return call(*arguments)
    for number in _NUMBERS:
        call, arguments = _holding, (number, call, *arguments)
    return call(*arguments)


def _holding(number: int, call: Callable[..., Any], *arguments: Any) -> Any:
    handler = _signal.getsignal(number)
    if not callable(handler):
        return call(*arguments)
    arrived: list[tuple[int, FrameType | None]] = []
    try:
        _signal.signal(number, lambda *signal: arrived.append(signal))
        return call(*arguments)
    finally:
        _signal.signal(number, handler)
        if arrived:
            handler(*arrived[-1])
