"""A trial chain: how close the decisions are that a test will have to make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pymc.exceptions import SamplingError

from pymc_austerity.acceptance import DECIDED, Looks
from pymc_austerity.acceptance.decision import decide_against_threshold
from pymc_austerity.diagnostics.built_steps import Deciding, decider_of
from pymc_austerity.kernel import Chain
from pymc_austerity.user_input import check_seed, takes, takes_fields

#: So many rows are read twice: the log ratio of all but one is another.
_FEW_ROWS = 100


@takes_fields
@dataclass(frozen=True, eq=False)
class Trial:
    """Proposals (θ, θ′) of a chain, reduced to what the analysis of a test needs.

    Made by `run_trial`, or from numbers of one's own.

    Parameters
    ----------
    log_ratio : numpy.ndarray, shape (P,)
        Log acceptance ratios Δ on all rows.
    noise_sd : numpy.ndarray, shape (P,)
        s = σ_l N/(T √(N − 1)), σ_l the standard deviation over the rows of l_i = ℓ_i(θ′) − ℓ_i(θ) (weighted, where rows
        are), T the temperature.
    n_rows : int
    replacement : bool, default False
        Whether the test will draw rows with replacement.

    Raises
    ------
    ValueError
        For arrays of different or no length, values that are not finite, or negative standard deviations.
    """

    log_ratio: np.ndarray
    noise_sd: np.ndarray
    n_rows: int
    replacement: bool = False

    def __post_init__(self) -> None:
        ratio, noise = np.asarray(self.log_ratio, dtype=float), np.asarray(self.noise_sd, dtype=float)
        if ratio.ndim != 1 or ratio.shape != noise.shape or not ratio.size:
            raise ValueError(
                f"Trial(log_ratio=, noise_sd=) needs one of both for each proposal; found shapes {ratio.shape} and "
                f"{noise.shape}."
            )
        if not (np.isfinite(ratio).all() and np.isfinite(noise).all() and (noise >= 0).all() and self.n_rows >= 1):
            raise ValueError("Trial: log_ratio= must be finite, noise_sd= finite and not negative, n_rows= at least 1.")
        object.__setattr__(self, "log_ratio", ratio)
        object.__setattr__(self, "noise_sd", noise)

    def __len__(self) -> int:
        return self.log_ratio.size


@takes()
def run_trial(step: Deciding, *, n_pairs: int = 200, tune: int = 1_000, seed: int = 0) -> Trial:
    """Run a chain with the proposals of a step and note how close each decision was, on all rows.

    The chain starts at the initial point of the step, tunes with the step's own test, and then makes `n_pairs`
    transitions on all rows.  The step is left as it is.

    Parameters
    ----------
    step : ApproxMH or ExactMH
    n_pairs : int, default 200
        Proposals to note; each costs a pass over the rows.
    tune : int, default 1000
        Transitions before them, to tune the proposal and to reach the posterior.
    seed : int, default 0

    Returns
    -------
    Trial

    Raises
    ------
    TypeError
        For a step with another test, whose errors this analysis does not describe.
    ValueError
        For fewer than two pairs, a negative `tune`, or a chain that proposes nothing that has to be decided.
    SamplingError
        For a start without a finite density.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 10)
    ...     _ = pm.Normal("y", mu, 1, observed=np.random.default_rng(0).normal(size=5_000))
    ...     trial = pma.run_trial(pma.ApproxMH(proxy=None), n_pairs=50, tune=200)
    >>> len(trial), trial.n_rows
    (50, 5000)
    """
    check_seed(seed, "run_trial", "seed")
    decider = decider_of(step, "a trial runs a chain with the proposals of one")
    if decider.test.decide is not decide_against_threshold:
        raise TypeError(
            f"{decider.parts.describe()} is not a step with a sequential t-test, which is what this design is for. "
            "Pass an ApproxMH or ExactMH step, or a Trial."
        )
    if n_pairs < 2 or tune < 0:
        raise ValueError(f"run_trial(n_pairs={n_pairs}, tune={tune}) needs at least two pairs and no negative tune.")
    chain = Chain(decider, np.random.default_rng(seed))
    schedule, tunes = decider.parts.temperature, decider.parts.tune
    theta = decider.parts.theta0 if chain.start is None else chain.start
    others = decider.parts.others0
    for t in range(tune):
        outcome = chain.transition(theta, others, float(schedule.at(t) if tunes else schedule.final))
        theta = outcome.theta
        if outcome.status != DECIDED:
            raise SamplingError(
                "The trial chain came to a point where the prior or a row has no finite density, at "
                f"{theta} (unconstrained). Give the step another initial_point=, or widen the likelihood."
            )
        if tunes:
            chain.adapt(outcome)
    return collect(chain, theta, others, n_pairs)[0]


def collect(chain: Chain, theta: np.ndarray, others: np.ndarray, n_pairs: int) -> tuple[Trial, np.ndarray, int]:
    """Make `n_pairs` transitions on all rows from `theta`, with the proposal as it is now.

    Return the pairs, the state after them, and the rows that were read. The standard deviation is that of all rows but
    one: at N rows a compiled transition reports none. One row moves a log ratio by s/√N, so that of few rows the log
    ratio is that of another transition with the same random numbers, on all of them.
    """
    decider = chain.decider
    n_rows, replacement = len(decider.parts.stored), decider.row_source.weighted
    temperature = float(decider.parts.temperature.final)
    if n_rows < 3:
        raise ValueError(
            f"A trial on {n_rows} rows, distinct ones where they were merged, shows nothing of how they differ: a test "
            "reads all of them. Use ExactMH, or merge_rows=False."
        )
    all_but_one, on_all = (Looks(np.array([n]), np.zeros(1)) for n in (n_rows - 1, n_rows))
    ratio, noise, rows_read, few = [], [], 0, n_rows <= _FEW_ROWS and not replacement
    for _ in range(n_pairs):
        streams = chain.streams
        outcome = chain.transition(theta, others, temperature, all_but_one)
        rows_read += outcome.n_rows
        if few and outcome.status == DECIDED:
            chain.go_back(streams)
            exact = chain.transition(theta, others, temperature, on_all)
            outcome = exact._replace(log_ratio_sd=outcome.log_ratio_sd)
            rows_read += exact.n_rows
        theta = outcome.theta
        # Where the prior or a row rules a proposal out, no test has anything to decide.
        if outcome.status == DECIDED and np.isfinite(outcome.log_ratio) and outcome.n_stages:
            ratio.append(outcome.log_ratio)
            noise.append(outcome.log_ratio_sd * (1.0 if replacement else np.sqrt(n_rows - 1)))
    if not ratio:
        raise ValueError(
            f"None of {n_pairs} proposals of the trial chain had a finite log ratio, so there is nothing to design a "
            "test for. Start where the model has a density, with smaller steps, or give epsilon a number."
        )
    return Trial(np.array(ratio), np.array(noise), n_rows, replacement), theta, rows_read
