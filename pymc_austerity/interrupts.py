"""Signals while compiled code runs: handed on when it is done."""

# `signal` itself spends microseconds on the names of what it returns.
import _signal  # type: ignore[import-not-found]
from collections.abc import Callable
from threading import get_ident, main_thread
from types import FrameType
from typing import Any

#: All signals for which Python can have a handler: Ctrl-C, the end of a job, alarms, those of the user.
_NUMBERS = tuple(sorted(int(number) for number in _signal.valid_signals()))


def uninterrupted(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a compiled function; the handler of a signal that arrives meanwhile runs when the call has returned.

    Named tuples, tuples of arrays and generators are converted by Python code, in which a handler of a signal that
    arrived while the function ran would raise: in the middle of numba's code, which ends the process by a segmentation
    fault, raises SystemError, or forgets it. So whatever compiled function Python calls in the main thread is called by
    this one, but those that return a number or nothing. Nothing interrupts compiled code: the call should be short.
    """
    if get_ident() != main_thread().ident:  # where Python runs no handlers
        return call(*arguments)
    for number in _NUMBERS:
        handler = _signal.getsignal(number)
        if callable(handler):
            call, arguments = _holding, (number, handler, call, *arguments)
    return call(*arguments)


def _holding(number: int, handler: Callable[..., Any], call: Callable[..., Any], *arguments: Any) -> Any:
    arrived: list[tuple[int, FrameType | None]] = []
    try:
        _signal.signal(number, lambda *signal: arrived.append(signal))
        return call(*arguments)
    finally:
        _signal.signal(number, handler)
        if arrived:
            handler(*arrived[-1])
