"""The table of `compare`, which prints a line for each parameter."""

from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd

#: Columns of a terminal, and of its part for the names of parameters.
_WIDTH, _NAMES = 80, 23
#: Lines that are printed.
_MOST_LINES = 60


class Comparison(pd.DataFrame):
    """What `compare` returns: a `pandas.DataFrame` whose printed form has a line a parameter.

    Slices of it are plain data frames.

    Attributes
    ----------
    reference : str
        The run that others are compared with.
    sharing : tuple of str
        Runs that share random numbers with it.
    """

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    @property
    def reference(self) -> str:
        """The run that others are compared with."""
        return str(self.attrs["reference"])

    @property
    def sharing(self) -> tuple[str, ...]:
        """Runs that share random numbers with the reference."""
        return tuple(self.attrs["sharing"])

    def lines(self) -> pd.DataFrame:
        """Return what is printed: for each run but the reference shift, ratio of standard deviations, and flags."""
        others = self[self.index.get_level_values("run") != self.reference]
        found = pd.DataFrame(index=others.index)
        found["shift"] = [f"{x:+.3f} ± {se:.3f}" for x, se in zip(others["shift"], others["shift_mcse"])]
        found["sd ratio"] = [f"{x:.3f} ± {se:.3f}" for x, se in zip(others["sd_ratio"], others["sd_ratio_mcse"])]
        found["differs"] = [of or "–" for of in others["differs"]]
        return found

    def summary(self) -> list[str]:
        """Return sentences on the runs: how many parameters differ, what draws took, and shared random numbers."""
        said = [f"Shifts are in standard deviations of {self.reference!r}, ± Monte Carlo error."]
        for run in dict.fromkeys(self.index.get_level_values("run")):
            own = self.xs(run, level="run")
            cost = [f"{own['ess'].min():,.0f} effective draws at least"]
            for column, unit in (("ess_per_s", "a second"), ("rows_per_draw", "rows a draw")):
                if np.isfinite(value := own[column].min()):
                    cost.append(f"{value:,.{0 if value >= 100 else 1}f} {unit}")
            n = int((own["differs"] != "").sum())
            differ = "" if run == self.reference else f"{n:,} of {len(own):,} parameters differ; "
            said.append(f"{run}: {differ}{', '.join(cost)}.")
        for run in self.sharing:
            largest = self.xs(run, level="run")["correlation"].max()
            said.append(
                f"{run!r} and {self.reference!r} share random numbers, as with one random_seed (correlation of draws "
                f"up to {largest:.2f}): these errors are of independent runs, and too large. Give one of them another "
                "random_seed."
            )
        return said

    def __repr__(self) -> str:
        """Write a line a parameter, in 80 columns, and what there is to say of the runs."""
        if not self._is_whole():
            return str(super().__repr__())
        lines, n = self.lines(), _MOST_LINES
        several = lines.index.get_level_values("run").nunique() > 1
        labels = [f"{parameter} ({run})" if several else str(parameter) for parameter, run in lines.index]
        width = min(_NAMES, max(map(len, [*labels, "parameter"])))
        written = [f"{'parameter':{width}}  {'shift':>15}  {'sd ratio':>14}  differs"]
        for label, (_, row) in list(zip(labels, lines.iterrows()))[:n]:
            short = label if len(label) <= width else f"{label[: width - 1]}…"
            written.append(f"{short:{width}}  {row['shift']:>15}  {row['sd ratio']:>14}  {row['differs']}")
        if n < len(lines):
            written.append(f"… and {len(lines) - n:,} more lines")
        return "\n".join([*written, "", *(line for said in self.summary() for line in wrap(said, _WIDTH))])

    def _repr_html_(self) -> str:
        """Write the same for a notebook."""
        if not self._is_whole():
            return pd.DataFrame(self).to_html()
        table = self.lines().head(_MOST_LINES).to_html(border=0)
        return table + "".join(f"<p>{escape(said)}</p>" for said in self.summary())

    def _is_whole(self) -> bool:
        """Whether this is a table of `compare` still, and not one that a method of pandas made of it."""
        return {"reference", "sharing"} <= self.attrs.keys() and "differs" in self.columns
