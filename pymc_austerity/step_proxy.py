"""The proxy of one step: what was learnt from all rows for it, and what is compiled from that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.bounds import Bound
from pymc_austerity.defaults import ProxyPlan, default_move, default_walk, prepare_or_do_without
from pymc_austerity.effects import Effects
from pymc_austerity.kernel import Density, compile_remainder_density, numba_options
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.model_moves import EffectProposal, ModelProposal, Setting
from pymc_austerity.preparation import Prepared
from pymc_austerity.proposals import Proposal, Surroundings
from pymc_austerity.rows import InOrder, Rows, RowSource
from pymc_austerity.stiefel import StiefelWalk
from pymc_austerity.surrogate import Surrogate, compile_surrogate
from pymc_austerity.weights import WeightedRows, for_weighted_rows

#: Proposals in a row that lead to a starting point among sub-models.
_STARTING_PROPOSALS = 20


class StepProxy:
    """What a step knows of all its rows before it draws, and how its parts change with that.

    Travels to other processes without what is compiled, which is compiled there again.

    Parameters
    ----------
    plan : ProxyPlan
    likelihood : RowLikelihood
    proposal : Proposal, ModelProposal or None
        As given to the step.
    compile_kwargs : dict or None
    excluded : bool
        Whether the user said ``proxy=None``.

    Attributes
    ----------
    prepared : Prepared or None
        What was learnt; None where there is no proxy.
    """

    prepared: Prepared | None = None
    _effects: Effects | None = None
    _surrogate: Surrogate | None = None
    _remainder: Density | None = None

    def __init__(
        self,
        plan: ProxyPlan,
        likelihood: RowLikelihood,
        proposal: Proposal | ModelProposal | None,
        compile_kwargs: dict[str, Any] | None,
        excluded: bool,
    ):
        self.plan = plan
        self._likelihood, self._proposal, self._compile_kwargs = likelihood, proposal, compile_kwargs
        self._excluded = excluded

    def __getstate__(self) -> dict[str, Any]:
        dropped = ("_effects", "_surrogate", "_remainder")
        return {name: value for name, value in self.__dict__.items() if name not in dropped}

    def settle(self, bound: Bound, density: Density, rows: Rows, fixed: Sequence[np.ndarray], *at: np.ndarray) -> None:
        """Give the plan up where the bound, or what the rows read, is at odds with it.

        Raises
        ------
        ValueError
            Where a proxy was asked for.
        """
        self.plan = self.plan.with_bound(bound)
        if self.effects is not None:
            self.plan = self.plan.for_effects(self.effects, bound, density, rows, fixed, *at)

    @property
    def effects(self) -> Effects | None:
        """What the rows read of θ, where the proposal knows it to be less than θ."""
        if not isinstance(self._proposal, EffectProposal) or self.plan.proxy is None:
            return None
        if self._effects is None:
            self._effects = self._proposal.effects(self._likelihood)
        return self._effects

    @property
    def expansion(self) -> Any:
        """The expansion; nothing without one."""
        return () if self.prepared is None else self.prepared.expansion

    def prepare(
        self,
        density: Density,
        rows: Rows,
        fixed: Sequence[np.ndarray],
        theta0: np.ndarray,
        others0: np.ndarray,
        temperature: float,
    ) -> None:
        """Learn from all rows what the proxy needs."""
        plan = self.plan
        if plan.proxy is None:
            return
        order = plan.proxy.order
        self.prepared = prepare_or_do_without(
            plan,
            self._read,
            lambda: self._remainders(density, order),
            self._compiled_surrogate(),
            plan.proxy,
            rows,
            fixed,
            np.concatenate([theta0 if self.effects is None else self.effects.of(theta0), others0]),
            temperature,
            plan.floor,
            self._compile_kwargs,
            True,
        )

    def bound(self, given: Bound) -> Bound:
        """Return the bound on what the test sees."""
        found = given if self.prepared is None else given.of_remainder(self.prepared.order)
        assert found is not None
        return found

    def test(self, given: AcceptanceTest) -> AcceptanceTest:
        """Return the test for rows as they are drawn."""
        return for_weighted_rows(given) if self._is_weighted else given

    def row_source(self, test: AcceptanceTest) -> RowSource:
        """Return how rows are drawn."""
        if self.prepared is not None and self.prepared.table is not None:
            return WeightedRows(self.prepared.table)
        return test.rows

    def density(self, density: Density, row_source: RowSource) -> Density:
        """Return the density that the test sees: all rows leave nothing to guess, a batch sees remainders."""
        if self.prepared is None or isinstance(row_source, InOrder):
            return density
        remainders = self._remainders(density, self.prepared.order)
        return remainders if self.effects is None else self.effects.at_theta(remainders)

    def proposal(self, test: AcceptanceTest, dimension: int) -> Proposal:
        """Return the proposal that was given, or the default, for this model."""
        given = self._proposal
        if given is None:
            given = default_walk(dimension) if self.prepared is None else default_move(self.prepared)
        if not isinstance(given, ModelProposal):
            return given
        surrogate = None if self.prepared is None else self._compiled_surrogate()
        options = numba_options(self._compile_kwargs)
        return given.for_model(Setting(self._likelihood, self.prepared, test.probability(0.0), options, surrogate))

    def start(
        self, rng: np.random.Generator, proposal: Proposal, walk: Any, theta0: np.ndarray, surroundings: Surroundings
    ) -> np.ndarray | None:
        """Draw a start further from the centre than a draw would be, so that R-hat can tell chains apart.

        Twice as far in up to ten dimensions.  In more the factor falls with their fourth root: twice as far in 800
        dimensions is sixty standard deviations of the log density away, a place that a proxy knows nothing about and
        that no proposal leads back from.
        """
        if self.prepared is None:
            return None
        if self.effects is not None:  # only the surrogate knows which coefficients to start with
            theta = theta0
            for _ in range(_STARTING_PROPOSALS):
                theta = proposal.propose(rng, theta, walk, surroundings)[0]
            return theta
        draws = self.prepared.draws
        mean = draws.mean(axis=0)
        further = np.sqrt(1 + 3 * np.sqrt(10 / max(10, mean.size)))
        return mean + further * (draws[rng.integers(len(draws))] - mean)

    def describe(self) -> str:
        """Return proposal, proxy and rows, in words."""
        floor = None if self.prepared is None else self.plan.floor
        rows = "Uniform()" if floor is None else f"Weighted(floor={floor})"
        proxy = None if self.prepared is None else self.plan.proxy
        return f"{self._proposal or 'the default proposal'}, proxy={proxy}, rows={rows}"

    @property
    def could_be(self) -> bool:
        """Whether ``proxy=None`` excluded a proxy against which nothing in the variables or the proposal stands."""
        if not self._excluded or isinstance(self._proposal, StiefelWalk):
            return False
        continuous = all(np.dtype(b.dtype).kind == "f" for b in self._likelihood.blocks)
        return continuous or isinstance(self._proposal, EffectProposal)

    @property
    def _is_weighted(self) -> bool:
        return self.prepared is not None and self.prepared.table is not None

    @property
    def _read(self) -> RowLikelihood:
        return self._likelihood if self.effects is None else self.effects.likelihood

    def _compiled_surrogate(self) -> Surrogate:
        if self._surrogate is None:
            self._surrogate = compile_surrogate(self._read, numba_options(self._compile_kwargs))
        return self._surrogate

    def _remainders(self, density: Density, order: int) -> Density:
        if self._remainder is None:
            options = numba_options(self._compile_kwargs)
            self._remainder = compile_remainder_density(density, self._read, order, **options)
        return self._remainder
