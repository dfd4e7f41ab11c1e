"""Ends a run of ``pm.sample`` once it has enough effective draws, or has taken long enough."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from multiprocessing import active_children
from typing import Any

import numpy as np

from pymc_austerity.diagnostics.convergence import effective_draws, of_entries
from pymc_austerity.steps.process import WORKER
from pymc_austerity.user_input import takes

_log = logging.getLogger("pymc_austerity")

#: Draws of a chain before its effective draws are estimated, and the growth from one estimate to the next.
_FIRST, _GROWTH = 100, 1.25
#: Times the seconds that are waited for a chain so far behind that PyMC would drop it.
_PATIENCE = 2.0
#: Entries of a variable that are followed, evenly spaced over it.
_MOST_ENTRIES = 1_000


class StopAt:
    """The callback that `stop_at` returns."""

    def __init__(self, ess: float | None, seconds: float | None, chains: int):
        self._ess = np.inf if ess is None else ess
        self._seconds = np.inf if seconds is None else seconds
        self._chains = chains
        self._begin()

    def _begin(self) -> None:
        self._draws: dict[int, list[np.ndarray]] = {}
        self._began: dict[int, float] = {}
        self._due = _FIRST
        self._together = 0

    def __call__(self, trace: Any, draw: Any) -> None:
        """Follow a draw of a chain as PyMC tells it, and interrupt the run after the last one that is wanted."""
        here, now = draw.chain, time.monotonic()
        if here in self._began and draw.draw_idx == 0:  # of another run
            self._begin()
        if here not in self._began:
            workers = sum(child.name.startswith(WORKER) for child in active_children())
            self._together = max(self._together, workers)
            self._began[here] = now
            self._due = self._due if workers else _FIRST
        if not draw.tuning:
            self._draws.setdefault(here, []).append(_followed(draw.point))
            self._end_if_enough(here, now)

    def _end_if_enough(self, here: int, now: float) -> None:
        """Interrupt the chain that runs, or all that run beside each other."""
        together = self._together > 0
        chains = list(self._draws.values()) if together else [self._draws[here]]
        if len(chains) < self._together:
            return
        share = 1 if together else 1 / self._chains
        n = min(len(draws) for draws in chains)
        passed = now - (min(self._began.values()) if together else self._began[here])
        keeps_all = _keeps_all([len(draws) for draws in chains])
        if n >= 2 and passed >= self._seconds * share * (1 if keeps_all else _PATIENCE):
            self._end(f"{passed:.0f} s", n)
        if n >= self._due and np.isfinite(self._ess) and keeps_all:
            self._due = int(_GROWTH * n) + 1
            found = _least_effective(chains, n)
            if found >= self._ess * share:
                self._end(f"{found:,.0f} effective draws", n)

    def _end(self, reached: str, n: int) -> None:
        chains = f"{len(self._draws)} chains have" if self._together else f"Chain {len(self._draws)} has"
        _log.info(f"{chains} {reached}, after {n:,} draws{' each' if self._together else ''}, and may stop.")
        raise KeyboardInterrupt


@takes()
def stop_at(*, ess: float | None = None, seconds: float | None = None, chains: int = 4) -> StopAt:
    """Return a callback for ``pm.sample`` that ends the run once it has enough draws or has taken long enough.

    Parameters
    ----------
    ess : float, optional
        Effective draws of all chains together that the slowest entry of any variable must have (bulk effective sample
        size as ArviZ estimates it, of the values that are sampled, transformed where PyMC transforms them).
    seconds : float, optional
        Wall-clock seconds from the first draw on, tuning included.  Every chain keeps at least two draws: none ends
        while it tunes.  Where one is so far behind the others that PyMC would drop it, up to twice as long.
    chains : int, default 4
        How many chains the run has.  It is asked for where chains run one after another (``cores=1``), so that each
        stops at its share of `ess` and of `seconds`; chains in processes of their own are counted.

    Returns
    -------
    callable
        For ``pm.sample(callback=)``; it may serve several runs, one after another.

    Raises
    ------
    TypeError, ValueError
        Where neither is given, or one is no positive number.

    Notes
    -----
    The draws before the end are returned as usual; ``draws=`` of ``pm.sample`` remains the most that are made, so give
    it generously.  Effective draws are estimated after 100 draws a chain and each time their number has grown by a
    quarter.  Of variables with more than 1,000 entries, 1,000 evenly spaced ones are followed.  Where the run ends
    depends on its draws, so that chains stopped by `ess` have somewhat fewer effective draws in truth than the estimate
    that stopped them; and on time where chains run beside each other, so that two runs of one seed may differ in length
    (not in the draws that both have).

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Bernoulli("y", p, observed=np.arange(1000) % 4 == 0)
    ...     stop = pma.stop_at(ess=400, seconds=60, chains=2)
    ...     idata = pm.sample(
    ...         20_000, step=pma.PenaltyMH(), callback=stop, chains=2, cores=1, progressbar=False, random_seed=1
    ...     )
    >>> idata.posterior.sizes["draw"] < 20_000
    True
    """
    if ess is None and seconds is None:
        raise ValueError("stop_at() wants ess=, seconds= or both: without either the run would not be stopped.")
    for name, value in {"ess": ess, "seconds": seconds, "chains": chains}.items():
        if value is not None and not value > 0:
            raise ValueError(f"stop_at: {name}={value} must be greater than 0.")
    return StopAt(ess, seconds, chains)


def _followed(point: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the entries that are followed, of all variables in one array."""
    flat = [np.ravel(value) for value in point.values()]
    return np.concatenate([values[:: -(-values.size // _MOST_ENTRIES) or 1] for values in flat])


def _keeps_all(lengths: list[int]) -> bool:
    """Return whether PyMC keeps all chains: it drops short ones where the rest has more draws in all without them."""
    totals = [n_kept * length for n_kept, length in enumerate(sorted(lengths, reverse=True), start=1)]
    return totals[-1] == max(totals)


def _least_effective(chains: list[list[np.ndarray]], n: int) -> float:
    """Return the effective draws of the slowest entry in the first n draws of each chain; 0 where one never moved."""
    draws = np.array([chain[:n] for chain in chains])
    moved = np.ptp(draws, axis=(0, 1)) > 0  # ArviZ calls draws that are all the same effective
    return float(np.where(moved, np.nan_to_num(of_entries(effective_draws, draws)), 0.0).min())
