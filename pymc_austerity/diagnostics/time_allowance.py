"""The time that a verdict may take, its bar, and what becomes of it when the user stops it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from pymc_austerity.diagnostics.results import SamplingResult, sampling_seconds, setup_of_steps
from pymc_austerity.diagnostics.verdicts import Finding, not_looked_at
from pymc_austerity.progress import passing_bar

#: Share of the time of a run that its verdict may take, and seconds that it may take anyway.
_SHARE, _LEAST = 0.5, 2.0
#: Groups of checks that one after the other advance the bar.
_CHECKS = 6
_STOPPED = "It was stopped before this was looked at."


class Allowance:
    """Runs the checks of a verdict one after the other, for so many seconds.

    Seconds are of processor time, so that a verdict does not depend on what else the computer does: checks that can go
    on for better numbers end by then. `stopped` says whether the user pressed Ctrl-C.
    """

    def __init__(self, seconds: float, shown: bool):
        self._begin, self._seconds = time.thread_time(), seconds
        self._bar = passing_bar(shown)
        self._task = self._bar.add_task("reliability", total=_CHECKS)
        self.stopped = False

    def __enter__(self) -> Allowance:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def has_time(self, reserved: float = 0.0) -> bool:
        """Whether a check may go on, with some seconds reserved for what follows."""
        return not self.stopped and time.thread_time() - self._begin + reserved < self._seconds

    @contextmanager
    def not_counted(self) -> Iterator[None]:
        """Wait for something that is no part of the time, as code that is compiled once and kept."""
        start = time.thread_time()
        yield
        self._begin += time.thread_time() - start

    def check(self, names: Iterable[str], look: Callable[[], list[Finding]]) -> list[Finding]:
        """Return what a check finds; of one that the user stops, or had stopped before, that it is not known."""
        if not self.stopped:
            self._bar.update(self._task, description=f"reliability: {', '.join(names)}")
            try:
                found = look()
                self._bar.advance(self._task)
                return found
            except KeyboardInterrupt:
                self.stopped = True
        return [not_looked_at(name, _STOPPED) for name in names]


def seconds_of_verdict(idata: SamplingResult) -> float:
    """Return half of the seconds that a run took, set-up included, or two."""
    taken = np.nan_to_num([setup_of_steps(idata, "setup_seconds"), sampling_seconds(idata)])
    return max(_SHARE * float(taken.sum()), _LEAST)
