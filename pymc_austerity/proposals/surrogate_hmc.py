"""Hamiltonian proposals on the surrogate, whose path length is tuned with the real test in the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from pymc_austerity.argument_kinds import is_number, is_whole
from pymc_austerity.compile.cache import built_once, njit_on_disk
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.proposals.proposal import Move, Proposal, Propose, Target, adapt_nothing
from pymc_austerity.proxy import SurrogateState, Trajectory, path_search, product
from pymc_austerity.user_input import takes_fields

#: Path lengths to choose from, in quarter periods: shorter ones are for proxies that are poor far from the start.
_LENGTHS = (1.0, 0.5, 0.25, 0.125)
#: Numbers of transitions to choose from: more than one is for surrogates on which a trajectory does not get far.
_TRANSITIONS = (1, 2, 4)
#: Draws of each choice before the best so far is used.
_TRIALS = 25
#: What a draw costs apart from its trajectory, in leapfrog steps: a model of time that is the same on every machine.
_OVERHEAD = 30.0


@takes_fields
@dataclass(frozen=True)
class SurrogateHMC(Proposal):
    """Hamiltonian transitions on the surrogate π̃ = exact prior × exp(summed proxy), at no cost in rows.

    Mass matrix and step size are tuned on the surrogate before sampling.  The prior stays exact, so hierarchical
    scales, simplices and ordered cut points are no obstacle.  Needs a proxy.

    Parameters
    ----------
    step_size : float or "adapt"
        Leapfrog step size in the whitened space, where the surrogate has about unit scale.  By default such that 0.9 of
        the trajectories are accepted on the surrogate.
    path_length : float or "adapt"
        Length of a trajectory in the whitened space; π/2, a quarter period, reaches independent points of a normal
        target.  By default chosen while tuning among a quarter of the longest period and parts of it, for the largest
        expected squared jump per unit of time, rejections by the test included.
    transitions : int or "adapt", default 1
        Transitions on the surrogate between two tests.  With "adapt" more than one is tried too, each of the longest
        path, by the same criterion.

    Raises
    ------
    ValueError
        For a step size or path length that is not positive, or no transitions.

    References
    ----------
    J. S. Liu, Monte Carlo Strategies in Scientific Computing, 2001, §9.4 (surrogate transition method);
    R. M. Neal, MCMC using Hamiltonian dynamics, 2011; C. Pasarica and A. Gelman, Adaptively scaling the Metropolis
    algorithm using expected squared jumped distance, Statistica Sinica 20, 2010.

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> pma.SurrogateHMC(transitions=2)
    SurrogateHMC(step_size='adapt', path_length='adapt', transitions=2)
    """

    needs_proxy: ClassVar[bool] = True

    step_size: float | Literal["adapt"] = "adapt"
    path_length: float | Literal["adapt"] = "adapt"
    transitions: int | Literal["adapt"] = 1

    def __post_init__(self) -> None:
        for name, advice in (("step_size", "0.5"), ("path_length", "1.5")):
            value = getattr(self, name)
            if value != "adapt" and not (is_number(value) and value > 0):
                raise ValueError(
                    f"SurrogateHMC({name}={value!r}) must be positive and finite, or 'adapt': otherwise a trajectory "
                    f"goes nowhere. Leave it out, or try {advice}."
                )
        count = self.transitions
        if not (count == "adapt" or is_whole(count, 1)):
            raise ValueError(
                f"SurrogateHMC(transitions={count!r}) must be a whole number of at least 1, or 'adapt': without a "
                "transition nothing is proposed."
            )

    def for_model(self, target: Target) -> Move:
        """Return the proposal on the surrogate of a model, as it was tuned there."""
        assert target.prepared is not None
        assert target.surrogate is not None
        tuned = target.prepared.move
        choices = self.choices(tuned.search.lengths[0])
        state = tuned._replace(search=path_search(choices, tuned.centre.size), t=np.zeros(1, np.int64))
        if self.step_size != "adapt":
            state = state._replace(log_scale=np.log([self.step_size]))
        propose = _in_a_row(target.surrogate.trajectory)
        return Move(propose, adapt_path if len(choices) > 1 else adapt_nothing, state.at_start, _step_and_path)

    def choices(self, quarter: float) -> list[tuple[float, int]]:
        """Return the pairs of path length and number of transitions that tuning chooses from."""
        lengths = [quarter * k for k in _LENGTHS] if self.path_length == "adapt" else [float(self.path_length)]
        if self.transitions != "adapt":
            return [(length, int(self.transitions)) for length in lengths]
        return [(lengths[0], n) for n in _TRANSITIONS] + [(length, 1) for length in lengths[1:]]


def _step_and_path(state: SurrogateState) -> tuple[np.ndarray, ...]:
    """Return the step size and the path that tuning chose."""
    return state.log_scale, state.search.choice


@njit_on_disk()
def adapt_path(state: SurrogateState, theta: np.ndarray, accepted: bool) -> None:
    """Take the path with the largest squared jump per unit of time so far, after trying each in turn."""
    search = state.search
    k = search.choice[0]
    if np.isfinite(search.last[0]):
        jump = product(state.whiten, theta - search.last)
        search.jumps[k] += np.dot(jump, jump)
        search.costs[k] += _OVERHEAD + search.transitions[k] * search.lengths[k] / np.exp(state.log_scale[0])
    search.last[:] = theta
    state.t[0] += 1
    n = search.lengths.size
    if state.t[0] < n * _TRIALS:
        search.choice[0] = state.t[0] % n
    else:
        search.choice[0] = np.argmax(search.jumps / search.costs)


@built_once
def _in_a_row(trajectory: Trajectory) -> Propose:
    """Compile as many trajectories as the state says."""

    @njit
    def propose(rng, theta, state, surroundings):  # type: ignore[no-untyped-def]
        theta_new, value, value_new, _ = trajectory(rng, theta, state, surroundings)
        for _ in range(state.search.transitions[state.search.choice[0]] - 1):
            # π̃-reversible transitions of one kernel in a row are reversible together.
            theta_new, _, value_new, _ = trajectory(rng, theta_new, state, surroundings)
        return theta_new, value - value_new, 0

    return propose
