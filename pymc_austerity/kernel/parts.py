"""What a decider is assembled from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.bounds import Bound
from pymc_austerity.kernel.temperature import Schedule
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.proposals import Proposal
from pymc_austerity.proxy import Prepared, ProxyPlan
from pymc_austerity.rows import Rows, Table


@dataclass(frozen=True, eq=False)
class Parts:
    """What a decider is assembled from: nothing compiled, so that it travels to other processes.

    Attributes
    ----------
    likelihood : RowLikelihood
    rows : Table
        Those that a sum over all rows has; once learnt from, those that chains read.
    fixed : tuple of numpy.ndarray
        Values of the shared variables that are not indexed by row.
    theta0, others0 : numpy.ndarray
        The model's initial point, flat: the variables of the step, and all others.
    test : AcceptanceTest
        For rows of equal weight.
    proposal : Proposal or None
        As it was given.
    plan : ProxyPlan
    bound : Bound
        On the rows themselves.
    temperature : Schedule
    tune : bool
        Whether the proposal adapts while a chain tunes.
    compile_kwargs : dict or None
    progressbar : bool
        Whether passes over all rows before sampling show a bar.
    made_by : str
        Name of the class of the step.
    prepared : Prepared or None
        What was learnt from all rows; None before that, and where there is no proxy.
    """

    likelihood: RowLikelihood
    rows: Table
    fixed: tuple[np.ndarray, ...]
    theta0: np.ndarray
    others0: np.ndarray
    test: AcceptanceTest
    proposal: Proposal | None
    plan: ProxyPlan
    bound: Bound
    temperature: Schedule
    tune: bool
    compile_kwargs: dict[str, Any] | None
    progressbar: bool
    made_by: str
    prepared: Prepared | None = None

    @property
    def stored(self) -> Rows:
        """The rows that chains read, once everything has been learnt from all rows."""
        (rows,) = self.rows.pieces()
        return rows

    @property
    def could_have_proxy(self) -> bool:
        """Whether ``proxy=None`` excluded a proxy against which nothing in the variables or the proposal stands."""
        if not self.plan.excluded or (self.proposal is not None and self.proposal.no_proxy_because):
            return False
        continuous = all(np.dtype(b.dtype).kind == "f" for b in self.likelihood.blocks)
        return continuous or (self.proposal is not None and self.proposal.expands_effects)

    @property
    def setup_passes(self) -> float:
        """Passes over all rows before the first draw."""
        return 0.0 if self.prepared is None else self.prepared.passes

    def describe(self) -> str:
        """Return the settings that decide what a step does, in a line."""
        names = ", ".join(b.name for b in self.likelihood.blocks)
        floor, proxy = (None, None) if self.prepared is None else (self.plan.floor, self.plan.proxy)
        rows = "Uniform()" if floor is None else f"Weighted(floor={floor})"
        return (
            f"{self.made_by} on {names} with {self.test}, {self.proposal or 'the default proposal'}, proxy={proxy}, "
            f"rows={rows}, temperature={self.temperature}"
        )
