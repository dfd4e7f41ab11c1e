"""The log of the package, shown as PyMC shows its own."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

_log = logging.getLogger("pymc_austerity")
_quiet = ContextVar("quiet", default=False)
#: Messages shown since a step began to be built: a model may be read several times for it.
_said: ContextVar[set[str] | None] = ContextVar("said", default=None)

Init = TypeVar("Init", bound=Callable[..., None])


def show_log() -> None:
    """Write messages from INFO on to the error stream, where the program has not set up logging itself.

    They are shown where PyMC shows its own: ``logging.getLogger("pymc").setLevel("WARNING")`` silences both.
    """
    if logging.root.handlers:
        return
    if _log.level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    if not _log.handlers:
        handler = logging.StreamHandler()
        handler.addFilter(_is_shown)
        _log.addHandler(handler)


def follows_progressbar(init: Init) -> Init:
    """Let a step that is built show each message once, and with ``progressbar=False`` warnings alone."""

    @wraps(init)
    def quiet_init(*args: Any, **kwargs: Any) -> None:
        token = _said.set(set())
        try:
            with quiet(not kwargs.get("progressbar", True)):
                init(*args, **kwargs)
        finally:
            _said.reset(token)

    return quiet_init  # type: ignore[return-value]


@contextmanager
def quiet(asked: bool = True) -> Iterator[None]:
    """Show warnings alone meanwhile, where that is asked for or holds already."""
    token = _quiet.set(asked or _quiet.get())
    try:
        yield
    finally:
        _quiet.reset(token)


def _is_shown(record: logging.LogRecord) -> bool:
    if _quiet.get() and record.levelno < logging.WARNING:
        return False
    if (said := _said.get()) is not None:
        if record.getMessage() in said:
            return False
        said.add(record.getMessage())
    # The handlers of a program that set up logging after this package was imported show the message already.
    return logging.getLogger("pymc").isEnabledFor(record.levelno) and not logging.root.handlers
