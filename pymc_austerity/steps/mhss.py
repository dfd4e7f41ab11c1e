"""The step that is exact on less than a row a draw."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import Exact, ScalableSubsampling
from pymc_austerity.bounds import Bound, Region, Unbounded, UnknownBoundError, WhitenedBound, find_remainder_bound
from pymc_austerity.groups.group_decider import predicted_rows
from pymc_austerity.kernel import Decider, Parts
from pymc_austerity.likelihood import Density, ModelData
from pymc_austerity.likelihood.jumps import require_seen_jumps
from pymc_austerity.progress import Phases
from pymc_austerity.proxy import LearntBounds, Taylor
from pymc_austerity.proxy.third_derivatives import check_triples
from pymc_austerity.rows import Rows
from pymc_austerity.steps.groups_of_step import GroupPlan
from pymc_austerity.steps.options import StepOptions, shows_options
from pymc_austerity.steps.row_step import RowStep
from pymc_austerity.steps.step_building import OneDecision
from pymc_austerity.tried_setup import shared_setup
from pymc_austerity.unsupported_model import UnsupportedModelError

#: Rows that cost about as much time as a third-order sum of E entries at both ends of a move: E³ over this.  Measured
#: on logistic rows: 13, 40, 300 and 1,900 of them at 10, 20, 50 and 100 entries.
_TRIPLES_A_ROW = 400
#: Rows a draw below which there is nothing to save: a draw costs as much by itself; and of rows that read several
#: numbers, of which the derivatives take seconds to compile.
_LEAST_SAVED, _LEAST_OF_SEVERAL = 50, 200
#: Of fewer rows all may be read.
_FEW_ROWS = 2_000
#: Numbers through which a row reads θ above which bounds of third order take longer to find than they save.
_MOST_NUMBERS = 3

_log = logging.getLogger("pymc_austerity")


@shows_options
class MHSS(RowStep):
    """Metropolis–Hastings with scalable subsampling: the exact posterior, from a handful of rows a draw or none.

    Parameters
    ----------
    vars
        As of every step.
    bound : "auto" or callable, default "auto"
        A number c_i for each row, such that what the proxy leaves of its log-likelihood at θ is at most c_i‖z‖^(k+1)
        in size, z = L⁻¹(θ − θ̂) being the distance from the centre in standard deviations of the posterior and k the
        order.

        ``"auto"`` finds them from the model.  Where that cannot be done, or where they ask for so many rows that all
        take less time, the step decides on all rows as `ExactMH` does, with a warning that says why.  With ``order=``,
        with `data`, or with a proposal that selects coefficients, a model without bounds is refused.

        A function of ``(centre, factor, radius)`` gives them otherwise, as an array of N finite numbers ≥ 0: `centre`
        is θ̂, the flat vector of the step's variables in the unconstrained space, of shape (D,); `factor`, of shape
        (D, E), has a column for each of the E entries that the rows read, with θ = centre + factor @ z; and the
        numbers must hold for ‖z‖ ≤ `radius`.  A row that breaks its own stops the run with an error.  Rows are not
        merged, since there is a number for each of the table.
    order : {"auto", 2, 3}, default "auto"
        k, the order of the expansion that is the proxy.  Third order leaves less of every row; it keeps a number for
        every triple of the entries of θ that the rows read, takes a pass over all rows more, and some E³/3
        multiplications a draw.  ``"auto"`` takes it where it is predicted to save more time than that, which it does
        from some twenty parameters on, and says so; second order where `bound` is a function
        or `proxy` is given.
    **options
        As of every step.

    Attributes
    ----------
    predicted_rows : float
        Rows that a draw will read, known before sampling, those that are read always included.
    rows_always_read : int
        Rows with so large a bound, because of their leverage, that they are read at every draw rather than drawn.

    Raises
    ------
    ValueError
        No bound is known where one is needed, no proxy can be built, there are too many parameters for third order, or
        an argument is out of range.
    NotRowWiseError
        As in `ApproxMH`.

    See Also
    --------
    PenaltyMH : For models without a bound, and where the prediction is some hundred rows or more.

    Notes
    -----
    The posterior is left invariant exactly, whatever the batch: nothing is taken for normal.  That rests on the
    bounds alone.  The rows of a draw are a Poisson number with mean C·M/K, C = Σc_i, M = ‖z‖³ + ‖z′‖³ (fourth powers
    with ``order=3``) and K the temperature; it falls with √N, as remainders shrink faster than rows grow in number.
    Rows that would be drawn more than once a draw are read always, once, and count exactly.  Where all that reaches N,
    or beyond the radius, all rows are read.  Of rows that read one predictor, those of like directions are put in a
    cone with an M of its own where that saves more than it costs, as it does with some tens of parameters.

    References
    ----------
    E. Prado, C. Nemeth and C. Sherlock, Metropolis–Hastings with scalable subsampling, arXiv 2407.19602, 2024.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=50_000)
    >>> with pm.Model():
    ...     slope = pm.Normal("slope", 0, 1)
    ...     y = pm.Bernoulli("y", logit_p=slope * x, observed=rng.random(50_000) < 1 / (1 + np.exp(-x)))
    ...     step = pma.MHSS()
    ...     idata = pm.sample(step=step, tune=200, draws=500, chains=2, cores=1, random_seed=1, progressbar=False)
    >>> step.predicted_rows < 1
    True
    >>> bool(idata.sample_stats["n_rows"].mean() < 1)
    True
    """

    name = "mhss"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        bound: str | Callable[..., Any] = "auto",
        order: int | str = "auto",
        **options: Unpack[StepOptions],
    ):
        if order not in ("auto", 2, 3):
            raise ValueError(
                f"order={order!r} must be 'auto', 2 or 3: bounds are known on what expansions of these orders leave."
            )
        proxy = options.get("proxy", "auto")
        if isinstance(proxy, Taylor) and proxy.order == 1:
            raise ValueError(
                f"proxy={proxy}: MHSS knows bounds on what an expansion of second order leaves of a row, and one of "
                "first order would leave a hundred times as much. Leave out proxy=, or use Taylor(order=2)."
            )
        if callable(bound):  # it gives a number for each row of the table
            options["merge_rows"] = False
            if options.get("data") is not None:
                raise ValueError(
                    "bound= is a function that returns a number for every row at once, and the rows of data= are never "
                    "all there. Leave bound= out, or use PenaltyMH, which needs none."
                )
        if order == 3 and proxy is not None:
            options["proxy"] = replace(proxy, order=3) if isinstance(proxy, Taylor) else Taylor(order=3)
        chosen = order != "auto" or callable(bound)
        by_groups = None if chosen else GroupPlan(ScalableSubsampling())
        one = _ByBounds(may_choose=not chosen and not isinstance(proxy, Taylor))
        super().__init__(ScalableSubsampling(), vars, bound=bound, by_groups=by_groups, one_decision=one, **options)

    @property
    def predicted_rows(self) -> float:
        """Rows always read and C·M/K, or N where that is less: the mean over pairs of draws of the surrogate.

        Of all moves of a draw, where groups move by themselves.
        """
        return float(predicted_rows(self.decider)) if self.moves_groups else _predicted(self.decider)

    @property
    def rows_always_read(self) -> int:
        """Rows that are read at every draw."""
        if not self.decider.test.reads.a_part:
            return int(self.decider.n_rows)
        return 0 if self.moves_groups else int(self.decider.bound_constants[1].always.size)


class _ByBounds(OneDecision):
    """One decision by bounds on what the proxy leaves of the rows, of the order that saves time."""

    def __init__(self, may_choose: bool):
        self.may_choose = may_choose  # the order, and to read all rows
        self.unknown: UnknownBoundError | None = None  # why there is no bound

    def find_bound(self, bound: str | Callable[..., Any], data: ModelData) -> Bound:
        """Return the bound on what the proxy leaves of the rows, and none where all rows will be read."""
        try:
            return find_remainder_bound(bound, data)
        except UnknownBoundError as reason:
            if not self.may_choose:
                raise
            self.unknown = reason
            return Unbounded()

    def assemble(self, parts: Parts, check: Callable[[Density], None], phases: Phases) -> Decider:
        """Compile the decision by bounds, or on all rows where bounds are not known or ask for more time."""
        selects = parts.proposal is not None and parts.proposal.selects_coefficients
        may_choose = self.may_choose and not selects and isinstance(parts.rows, Rows)
        choose = partial(_choose_order, parts) if may_choose else None
        with shared_setup():
            try:
                if self.unknown is not None:
                    raise self.unknown
                return super().assemble(replace(parts, plan=replace(parts.plan, choose_order=choose)), check, phases)
            except UnsupportedModelError as error:
                if not may_choose:
                    raise
                at = parts.theta0, parts.others0
                require_seen_jumps(parts.likelihood, parts.rows, parts.fixed, *at, None, parts.made_by)
                because = error.reason if isinstance(error, UnknownBoundError) else str(error).partition(". ")[0]
                try:
                    return self._on_all_rows(parts, check, phases, because)
                except UnsupportedModelError:
                    raise error from None

    def _on_all_rows(self, parts: Parts, check: Callable[[Density], None], phases: Phases, because: str) -> Decider:
        """Compile the decision on all rows, as of `ExactMH`, and say why."""
        plan = replace(parts.plan, floor=None)
        found = super().assemble(replace(parts, test=Exact(), plan=plan, bound=Unbounded()), check, phases)
        _log.log(
            logging.WARNING if found.n_rows >= _FEW_ROWS else logging.INFO,
            f"{parts.made_by} reads all {found.n_rows:,} rows at every draw, to be exact, where PenaltyMH() reads a "
            f"part: {because.rstrip('.')}.",
        )
        return found

    def expected_rows(self, decider: Decider, tried: float | None) -> tuple[float, bool]:
        """Return the rows that are predicted, which is no bound."""
        if decider.parts.plan.by_statistics:
            _log.info("MHSS will read no row: sums over the data determine this likelihood, and they are known.")
        return _predicted(decider), False


def _predicted(decider: Decider) -> float:
    """Return the mean number of rows that a draw of a decision by bounds reads, or N where it reads all."""
    if not decider.test.reads.a_part:
        return float(decider.n_rows)
    if decider.parts.plan.by_statistics:
        return 0.0
    draws, selected, bound = decider.draws_of_surrogate(), decider.compiled.selected, decider.bound
    if selected is not None:
        draws = np.array([selected.of(theta) for theta in draws])
    assert isinstance(bound, WhitenedBound)
    temperature = float(decider.parts.temperature.final)
    return bound.rows_of_moves(decider.bound_constants, draws, decider.expansion.centre, temperature, decider.n_rows)


def _choose_order(parts: Parts, region: Region, draws: np.ndarray) -> tuple[int, LearntBounds]:
    """Return the order of expansion that saves time, and its bounds; refuse where all rows take less time."""
    bound, n_rows = parts.bound, len(parts.rows)
    assert isinstance(bound, WhitenedBound)

    def of_order(order: int) -> tuple[float, LearntBounds]:
        found = bound.learn(region._replace(order=order), parts.rows)
        return bound.rows_of_moves(found[0], draws, region.centre, float(parts.temperature.final), n_rows), found

    order, (read, bounds) = 2, of_order(2)
    least = _LEAST_SAVED if bound.numbers_read == 1 else _LEAST_OF_SEVERAL
    if read > least and bound.numbers_read <= _MOST_NUMBERS:
        with suppress(UnsupportedModelError):  # of no third derivatives, or no bound on what they leave
            check_triples(parts.likelihood)
            read_third, bounds_third = of_order(3)
            if read - read_third >= max(least, region.coordinates.size**3 / _TRIPLES_A_ROW):
                _log.info(f"Third order: it leaves {read_third:.3g} rows a draw to be read, second order {read:.3g}.")
                order, read, bounds = 3, read_third, bounds_third
    if n_rows >= _FEW_ROWS and read > bound.share_of_all * n_rows:
        raise UnknownBoundError(
            f"the bounds on its rows ask for {read:,.0f} a draw, and to read all of them in order takes less time."
        )
    return order, bounds
