"""Which step to use for a model: the choice among steps that were tried, and how it is told."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pymc_austerity.steps.candidate import Candidate
from pymc_austerity.unsupported_model import UnsupportedModelError

#: An exact step is preferred where it takes at most so many times as long as the quickest one.
_WORTH_OF_EXACT = 3.0
_WIDTH = 80
_COLUMNS = ["seconds", "set-up", "rows a draw", "us a draw", "us an effective draw", "accepted", "exact", "remark"]


@dataclass(frozen=True, eq=False)
class Recommendation:
    """Which step to use, and why.

    Parameters
    ----------
    step : str
        Name of the step: a class of this package, or NUTS.
    why : str
        A sentence.
    table : pandas.DataFrame
        A line a step: ``seconds`` to set up four chains, tune them and make the effective draws that were asked for,
        one after the other on one core; of these ``set-up``; ``rows a draw``, ``us a draw`` and
        ``us an effective draw`` (microseconds of processor time), ``accepted``, whether it is ``exact``, and a
        ``remark``, which says why there are no numbers.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("mean"), 1, observed=np.arange(300) / 100)
    >>> found = pma.recommend(model, progressbar=False)
    >>> found.step, found.build().name
    ('NUTS', 'nuts')
    """

    step: str
    why: str
    table: pd.DataFrame
    _build: Mapping[str, Callable[[], Any]]
    _lines: Sequence[str]

    def build(self, name: str | None = None) -> Any:
        """Return a step that was tried, ready for ``pm.sample(step=...)``: nothing is built again.

        Parameters
        ----------
        name : str, optional
            Of a line of the table; the recommended step by default.

        Returns
        -------
        BlockedStep
            As it was before the trial; for NUTS a ``pm.NUTS``.

        Raises
        ------
        ValueError
            For a step that was not built.
        """
        name = self.step if name is None else name
        if name not in self._build:
            built = ", ".join(self._build)
            raise ValueError(
                f"build(name={name!r}): these steps were built: {built}. all_steps=True builds the others."
            )
        return self._build[name]()

    def __repr__(self) -> str:
        sentence = textwrap.fill(f"{self.step}: {self.why}.", _WIDTH, subsequent_indent="    ")
        return "\n".join([sentence, "", *self._lines])

    def _repr_html_(self) -> str:
        table = self.table.to_html(float_format="{:,.3g}".format, na_rep="-")
        return f"<p><b>{self.step}</b>: {self.why}.</p>{table}"


def choose(found: Sequence[Candidate], draws: int) -> tuple[str, str]:
    """Return the name of the step and the reason; raise an UnsupportedModelError where none has numbers."""
    seconds = {c: c.seconds(draws) for c in found if np.isfinite(c.seconds(draws))}
    if not seconds:
        remarks = "; ".join(f"{c.name}: {c.remark}" for c in found)
        raise UnsupportedModelError(
            f"None of these steps can sample this model. {remarks}. pm.sample() chooses among PyMC's own."
        )
    quickest = min(seconds, key=seconds.__getitem__)
    # What takes *at least* so long may take far longer: it is chosen where even that is the least.
    known = [c for c in seconds if c.exact and not c.at_least and seconds[c] <= _WORTH_OF_EXACT * seconds[quickest]]
    exact = [quickest] if quickest.exact else known
    chosen = min(exact, key=seconds.__getitem__) if exact else quickest
    kind = "exact" if chosen.exact else "approximate"
    why = f"{kind}, and {draws:,} effective draws take {_of_time(chosen, draws)}"
    if len(found) == 1:
        return chosen.name, f"{why}, before another step would be set up; no other was tried (all_steps=True does)"
    others = [c for c in seconds if c is not chosen]
    if others:
        rival = min(others, key=seconds.__getitem__)
        why += f"; {rival.name}, {'exact' if rival.exact else 'approximate'}, takes {_of_time(rival, draws)}"
    refused = [f". Not {c.name}: {c.remark}" for c in found if c not in seconds and c.remark][:1]
    return chosen.name, why + "".join(refused)


def line_of(candidate: Candidate, draws: int) -> str:
    """Return a candidate in a line of 80 columns."""
    c, kind = candidate, "exact" if candidate.exact else "approximate"
    if not np.isfinite(c.seconds(draws)):
        return f"{c.name:<16}{textwrap.shorten(c.remark, _WIDTH - 16, placeholder=' …')}"
    setup = f"{_time(c.setup)} set-up"
    return f"{c.name:<16}{_of_time(c, draws):<16}{kind:<12}{setup:<14}{_us(c.effective_us)} an eff. draw"


def _of_time(candidate: Candidate, draws: int) -> str:
    return ("at least " if candidate.at_least else "about ") + _time(candidate.seconds(draws))


def _time(seconds: float) -> str:
    """Write seconds in the unit that suits them."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def _us(us: float) -> str:
    return f"{us:,.0f} µs" if us < 1e4 else f"{us / 1e3:,.0f} ms"


def table_of(found: Sequence[Candidate], draws: int) -> pd.DataFrame:
    """Return a line a candidate, with the columns of `Recommendation.table`."""
    lines = {
        c.name: (c.seconds(draws), c.setup, c.rows, c.us, c.effective_us, c.accepted, c.exact, c.remark) for c in found
    }
    return pd.DataFrame.from_dict(lines, orient="index", columns=_COLUMNS)
