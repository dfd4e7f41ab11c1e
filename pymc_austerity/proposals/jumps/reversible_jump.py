"""Reversible jump between the sets of coefficients that a model may include."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable

from pymc_austerity.argument_kinds import is_whole
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.likelihood import Block, RowLikelihood
from pymc_austerity.likelihood.prior_laws import NORMAL, Law
from pymc_austerity.proposals.jumps.excluded_law import ExcludedLaw, compile_law, reach_law
from pymc_austerity.proposals.jumps.jump_moves import JumpState, Layout, adapt_updates, build_jump
from pymc_austerity.proposals.jumps.sub_models import SubModels, SurrogateJumpState
from pymc_austerity.proposals.jumps.surrogate_jump import build_surrogate_jump
from pymc_austerity.proposals.proposal import Move, Proposal, Target, adapt_nothing
from pymc_austerity.proxy import Prepared, SelectedCoefficients, select_coefficients
from pymc_austerity.user_input import takes_fields


@takes_fields
@dataclass(frozen=True, eq=False)
class ReversibleJump(Proposal):
    """Include and exclude coefficients, exchange them, and move those included: variable selection for any test.

    The model has a vector of coefficients and a vector of indicators of the same shape, and its likelihood reads their
    product.  With a proxy, the default, many moves are made on the surrogate of all sub-models, which costs no rows,
    and the test decides on what they come to.  With ``proxy=None`` an update moves one included coefficient by a normal
    step, a birth includes one with a value drawn from a normal law, and a death excludes one.  The value of an
    excluded coefficient is drawn from its prior and matters to nothing.

    Parameters
    ----------
    coefficients : Variable or str
        Continuous variable without a transform.
    indicators : Variable or str
        Variable of zeros and ones of the same shape, a ``pm.Bernoulli`` as a rule.
    birth_scale : float or array_like of shape (D,), default 0.1
        Without a proxy: standard deviation of the value at a birth.
    birth_centre : float or array_like of shape (D,), default 0.0
        Without a proxy: its mean.  Estimates from a fit of all coefficients make births more likely to be accepted.
    update_scale : float or array_like of shape (D,), optional
        Without a proxy: standard deviation of an update, adapted for each coefficient while tuning.  About 1/√N by
        default.
    target_accept : float, default 0.5
        Without a proxy: acceptance rate of updates that tuning aims at.
    weights : sequence of three floats, default (1, 1, 1)
        Without a proxy: how often updates, births and deaths are tried where all three are possible.
    smallest, largest : int, optional
        Limits to the number of included coefficients; 0 and D by default.
    excluded : float or array_like of shape (D,), optional
        Standard deviation of the normal law, centred at zero, from which an excluded coefficient is drawn.  By
        default that is the coefficient's prior, which has to be normal, Laplace, Student or Cauchy then.
    transitions : int, default 100
        With a proxy: moves on the surrogate between two tests, at most; how many is drawn uniformly each time.  Fewer
        help where few proposals are accepted.

    Raises
    ------
    ValueError
        An argument out of range; variables of different shapes, with a transform, or of the wrong type; other
        variables in the same step, without a proxy or where the rows do not read them; a start outside the limits; a
        prior that cannot be drawn from.

    Notes
    -----
    The stationary law is the joint law of the model, as with any other step, so that steps for the other variables
    combine with this one.  The prior of an excluded coefficient cancels against the density it is drawn from, and
    what remains is Green's ratio; where `excluded` is another law the chain is right but jumps less often.

    With a proxy, continuous variables that the rows read as well – an intercept, a scale – may be in the same step, and
    had better be where they are correlated with the coefficients.  The rows are expanded around the mode of the model
    with all coefficients included; where that has none, there is no proxy.

    Without one, birth laws that are far too wide or too narrow, and correlated columns, make for few accepted jumps.

    References
    ----------
    P. J. Green, Reversible jump Markov chain Monte Carlo computation and Bayesian model determination, Biometrika 82,
    1995; S. J. Godsill, On the relationship between Markov chain Monte Carlo methods for model uncertainty, JCGS 10,
    2001; G. Zanella, Informed proposals for local MCMC in discrete spaces, JASA 115, 2020; A. Korattikara, Y. Chen and
    M. Welling, ICML 2014, section 6.3 and appendix E.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5_000, 4))
    >>> labels = rng.random(5_000) < 1 / (1 + np.exp(-X[:, 0]))
    >>> with pm.Model():
    ...     included = pm.Bernoulli("included", 0.2, shape=4)
    ...     beta = pm.Normal("beta", 0, 1, shape=4)
    ...     y = pm.Bernoulli("y", logit_p=X @ (included * beta), observed=labels)
    ...     step = pma.PenaltyMH(proposal=pma.ReversibleJump(beta, included))
    ...     idata = pm.sample(
    ...         500, tune=100, step=step, chains=2, cores=1, random_seed=1, progressbar=False,
    ...         compute_convergence_checks=False,
    ...     )
    >>> idata.posterior["included"].mean(("chain", "draw")).values.round(1)
    array([1., 0., 0., 0.])
    """

    selects_coefficients: ClassVar[bool] = True

    coefficients: Variable | str
    indicators: Variable | str
    birth_scale: ArrayLike = 0.1
    birth_centre: ArrayLike = 0.0
    update_scale: ArrayLike | None = None
    target_accept: float = 0.5
    weights: Sequence[float] = (1.0, 1.0, 1.0)
    smallest: int = 0
    largest: int | None = None
    excluded: ArrayLike | None = None
    transitions: int = 100

    def __post_init__(self) -> None:
        for name in ("birth_scale", "update_scale", "excluded"):
            value = getattr(self, name)
            if value is not None and not (np.all(np.isfinite(value)) and np.all(np.asarray(value) > 0)):
                raise ValueError(f"ReversibleJump({name}={value!r}) is a standard deviation: positive and finite.")
        if not np.all(np.isfinite(self.birth_centre)):
            raise ValueError(f"ReversibleJump(birth_centre={self.birth_centre!r}) must be finite.")
        if not 0 < self.target_accept < 1:
            raise ValueError(
                f"ReversibleJump(target_accept={self.target_accept}) must lie between 0 and 1: tuning moves the scale "
                "of updates until that share of them is accepted. 0.5 serves well for one coefficient at a time."
            )
        if len(self.weights) != 3 or not np.all(np.isfinite(self.weights)) or min(self.weights) <= 0:
            raise ValueError(
                f"ReversibleJump(weights={self.weights!r}) must be three positive numbers for updates, births and "
                "deaths: without one of them the chain cannot reach every set of coefficients and every value."
            )

        if not (is_whole(self.smallest, 0) and (self.largest is None or self.largest > self.smallest)):
            raise ValueError(
                f"ReversibleJump(smallest={self.smallest}, largest={self.largest}) must satisfy 0 ≤ smallest < "
                "largest, the limits to the number of included coefficients. Leave them out for none and all."
            )
        if not is_whole(self.transitions, 1):
            raise ValueError(
                f"ReversibleJump(transitions={self.transitions!r}) must be a whole number of at least 1: without a "
                "transition nothing is proposed. Leave it out for 100."
            )

    def selected(self, likelihood: RowLikelihood) -> SelectedCoefficients:
        """Return what the rows read: the product of coefficients and indicators, which a proxy expands."""
        beta, gamma = self._blocks(likelihood)
        selected = select_coefficients(likelihood, beta, gamma)
        if unread := [b.name for b in selected.likelihood.blocks if b.name not in selected.likelihood.read]:
            raise ValueError(
                f"ReversibleJump moves what the rows read, and they do not read {unread}. Leave these variables to "
                f"another step: pm.sample(step=[PenaltyMH([{beta.name}, {gamma.name}], proposal=...), pm.Slice(...)])."
            )
        return selected

    def for_model(self, target: Target) -> Move:
        """Return the proposal for one model."""
        likelihood = target.likelihood
        beta, gamma = self._blocks(likelihood)
        size = beta.stop - beta.start
        largest = size if self.largest is None else self.largest
        if not 0 <= self.smallest < largest <= size:
            raise ValueError(
                f"ReversibleJump(smallest={self.smallest}, largest={self.largest}) must satisfy 0 ≤ smallest < "
                f"largest ≤ {size}, the number of coefficients."
            )
        if target.prepared is not None:
            return self._on_surrogate(target, target.prepared, largest)
        if more := [b.name for b in likelihood.blocks if b not in (beta, gamma)]:
            raise ValueError(
                f"Without a proxy ReversibleJump moves {beta.name!r} and {gamma.name!r} alone, but the step also has "
                f"{more}. Give the step vars=[{beta.name}, {gamma.name}] and the others to another step: pm.sample("
                f"step=[ApproxMH([{beta.name}, {gamma.name}], proposal=ReversibleJump(...)), ApproxMH([...])])."
            )
        layout = Layout(
            beta.start,
            gamma.start,
            size,
            np.asarray(self.weights, dtype=float),
            self.smallest,
            largest,
            _entries(self.birth_centre, "birth_centre", beta),
            _entries(self.birth_scale, "birth_scale", beta),
        )
        family, excluded_law = self._excluded_law(likelihood, beta, target.compile_kwargs)

        def make_state(theta: np.ndarray, discrete: np.ndarray, n_rows: int) -> JumpState:
            _check_start(theta[gamma.start : gamma.stop], self.smallest, largest)
            scale = 2.4 / np.sqrt(n_rows) if self.update_scale is None else self.update_scale
            scales = np.log(_entries(scale, "update_scale", beta))
            rate = np.array([self.target_accept])
            return JumpState(scales[:1].copy(), scales, np.zeros(size, np.int64), np.full(1, -1), rate)

        reached = {"excluded_law": reach_law(excluded_law, likelihood)}
        return Move(build_jump(layout, family), adapt_updates, make_state, _all_scales, reached=reached)

    def _on_surrogate(self, target: Target, prepared: Prepared, largest: int) -> Move:
        """Return moves on the surrogate of the full model."""
        likelihood, selected = target.likelihood, self.selected(target.likelihood)
        beta, gamma = self._blocks(likelihood)
        inputs = [likelihood.theta, likelihood.others, *likelihood.fixed]
        log_prior = compile_part(inputs, [likelihood.log_prior], **target.compile_kwargs)
        family, excluded_law = self._excluded_law(likelihood, beta, target.compile_kwargs)
        sub_models = SubModels(selected, prepared.move.linearisation, target.fixed, log_prior, family, excluded_law)

        def make_state(theta: np.ndarray, discrete: np.ndarray, n_rows: int) -> SurrogateJumpState:
            _check_start(theta[gamma.start : gamma.stop], self.smallest, largest)
            return sub_models.state(theta, self.smallest, largest)

        propose = build_surrogate_jump(family, self.excluded is None, int(self.transitions))
        return Move(propose, adapt_nothing, make_state, reached={"excluded_law": reach_law(excluded_law, likelihood)})

    def _blocks(self, likelihood: RowLikelihood) -> tuple[Block, Block]:
        beta = _block(likelihood, self.coefficients, "coefficients")
        gamma = _block(likelihood, self.indicators, "indicators")
        if beta.shape != gamma.shape:
            raise ValueError(
                f"The coefficients {beta.name!r} have shape {beta.shape} and the indicators {gamma.name!r} "
                f"{gamma.shape}: each coefficient needs one indicator."
            )
        if np.dtype(beta.dtype).kind != "f" or np.dtype(gamma.dtype).kind not in "iub":
            raise ValueError(
                f"ReversibleJump needs continuous coefficients and discrete indicators; {beta.name!r} is {beta.dtype} "
                f"and {gamma.name!r} is {gamma.dtype}."
            )
        return beta, gamma

    def _excluded_law(
        self, likelihood: RowLikelihood, beta: Block, compile_kwargs: dict[str, Any]
    ) -> tuple[int, ExcludedLaw]:
        if self.excluded is not None:
            scale = _entries(self.excluded, "excluded", beta).reshape(beta.shape)
            law = Law(NORMAL, pt.zeros(()), pt.constant(scale), pt.ones(()))
        elif beta.name in likelihood.laws:
            law = likelihood.laws[beta.name]
        else:
            raise ValueError(
                f"The prior of {beta.name!r} is not normal, Laplace, Student or Cauchy, so that ReversibleJump cannot "
                "draw excluded coefficients from it. Give the standard deviation of a normal law that is close to the "
                "prior of an excluded coefficient as excluded=."
            )
        return law.family, compile_law(law, likelihood, beta, compile_kwargs)


def _all_scales(state: JumpState) -> tuple[np.ndarray, ...]:
    """Return what tuning changes: a scale for every coefficient."""
    return (state.log_scales,)


def _block(likelihood: RowLikelihood, variable: Variable | str, argument: str) -> Block:
    name = variable if isinstance(variable, str) else variable.name
    for block in likelihood.blocks:
        if block.name == name:
            return block
    names = [block.name for block in likelihood.blocks]
    if any(found.startswith(f"{name}_") and found.endswith("__") for found in names):
        raise ValueError(
            f"ReversibleJump({argument}={name!r}) has a transform, and a birth would draw values on another scale than "
            "the model's. Use a prior on all real numbers."
        )
    raise ValueError(f"ReversibleJump({argument}={name!r}) is not among the variables of the step, {names}.")


def _check_start(indicators: np.ndarray, smallest: int, largest: int) -> None:
    k = int(np.sum(indicators > 0.5))
    if not smallest <= k <= largest:
        raise ValueError(
            f"The chain would start with {k} coefficients included, outside the limits smallest={smallest} and "
            f"largest={largest}, which it could not enter. Give the indicators an initval= within them."
        )


def _entries(value: ArrayLike, name: str, beta: Block) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if array.shape not in ((), beta.shape):
        raise ValueError(
            f"ReversibleJump({name}=) has shape {array.shape}; a number or an array of shape {beta.shape}, one for "
            f"each of the coefficients {beta.name!r}, is needed."
        )
    return np.broadcast_to(array, beta.shape).ravel().copy()
