"""Settings of the sequential test that read as little as a tolerance allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq

from pymc_austerity.acceptance.decision_error import acceptance_error
from pymc_austerity.acceptance.operating_characteristic import OperatingCharacteristic, analyse_test
from pymc_austerity.diagnostics.built_steps import Deciding
from pymc_austerity.diagnostics.trial import Trial, run_trial
from pymc_austerity.user_input import takes

Kind = Literal["average", "worst-case"]

#: Quantile of the normal distribution for the confidence that the pairs of the trial leave in their mean.
_CONFIDENCE = 1.645
#: Batches from which the mean may pass for normal (Korattikara, Chen and Welling 2014, appendix A: n > 100).
_FEWEST_ROWS = 100
#: The analysis takes time of the order of the square of the looks.
_MOST_LOOKS = 1_000
_SMALLEST_EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class Design(Mapping[str, Any]):
    """Settings of a sequential test, and what they do: ``ApproxMH(**design)``.

    Returned by `design_test`.  A mapping of ``epsilon``, ``batch_size`` and ``alpha``.

    Attributes
    ----------
    epsilon, batch_size, alpha
        As in `ApproxMH`; the boundary starts from G0 = Φ⁻¹(1 − ε).
    error, share : float
        Over the pairs of the trial: mean abs(Δ_a), and the expected share of the rows read.
    worst_error, worst_share : float
        The same at a tie, without regard to the trial.
    kind : {"average", "worst-case"}
    tolerance : float
    trial : Trial
    """

    epsilon: float
    batch_size: int
    alpha: float
    error: float
    share: float
    worst_error: float
    worst_share: float
    kind: str
    tolerance: float
    trial: Trial

    def __getitem__(self, name: str) -> Any:
        return {"epsilon": self.epsilon, "batch_size": self.batch_size, "alpha": self.alpha}[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("epsilon", "batch_size", "alpha"))

    def __len__(self) -> int:
        return 3

    def __repr__(self) -> str:
        return (
            f"Design(epsilon={self.epsilon:.3g}, batch_size={self.batch_size}, alpha={self.alpha:g}: {self.kind} error "
            f"{self.error if self.kind == 'average' else self.worst_error:.3g} of {self.tolerance:g}, reads "
            f"{self.share:.0%} of {self.trial.n_rows:,} rows)"
        )


@takes(trial=Trial)
def evaluate_test(trial: Trial, *, epsilon: float, batch_size: int, alpha: float = 0.5) -> tuple[float, float]:
    """Return the mean abs(Δ_a) and the mean share of the rows that a test would have over the pairs of a trial.

    Parameters
    ----------
    trial : Trial
    epsilon, batch_size, alpha
        As in `ApproxMH`.

    Examples
    --------
    >>> import numpy as np, pymc_austerity as pma
    >>> trial = pma.Trial(log_ratio=np.array([-2.0, -1.0, 0.5]), noise_sd=np.full(3, 3.0), n_rows=20_000)
    >>> error, share = pma.evaluate_test(trial, epsilon=0.01, batch_size=500)
    >>> f"{error:.3f} {share:.2f}"
    '0.033 0.82'
    """
    return _over_pairs(_analysed(trial, epsilon, batch_size, alpha), trial)


def _analysed(trial: Trial, epsilon: float, batch_size: int, alpha: float) -> OperatingCharacteristic:
    return analyse_test(
        trial.n_rows, epsilon=epsilon, batch_size=batch_size, alpha=alpha, replacement=trial.replacement
    )


def _over_pairs(test: OperatingCharacteristic, trial: Trial) -> tuple[float, float]:
    error, share = acceptance_error(test, trial.log_ratio, trial.noise_sd)
    return float(np.abs(error).mean()), float(share.mean())


@takes()
def design_test(
    step_or_trial: Deciding | Trial,
    *,
    tolerance: float = 0.01,
    kind: Kind = "average",
    batch_sizes: Sequence[int] | None = None,
    alphas: Sequence[float] = (0.5, 0.75, 1.0),
    **trial_settings: Any,
) -> Design:
    """Choose the settings of `ApproxMH` that read the fewest rows with an error within a tolerance.

    Parameters
    ----------
    step_or_trial : ApproxMH, ExactMH or Trial
        A step, with whose proposals a trial chain is run (`run_trial`), or the trial itself.
    tolerance : float, default 0.01
        Largest error in the acceptance probability.
    kind : {"average", "worst-case"}
        Which error: the mean of abs(Δ_a) over the pairs (θ, θ′) of the trial (equation 7), or the error at a tie, which
        no pair exceeds (equation 8).  The second is safe whatever comes, and reads much more.
    batch_sizes : sequence of int, optional
        Rows a look to choose from; by default 100, 200, 500, 1000, … up to half of the rows, with at most a thousand
        looks.
    alphas : sequence of float, default (0.5, 0.75, 1.0)
        Shapes of the boundary to choose from, between Pocock's (0.5) and O'Brien and Fleming's (1).
    **trial_settings
        ``n_pairs``, ``tune`` and ``seed`` of `run_trial`, where a step is given.

    Returns
    -------
    Design
        ``ApproxMH(**design)`` takes it.

    Raises
    ------
    TypeError
        For a step with another test, or settings of a trial chain together with a trial.
    ValueError
        For a tolerance, kind, batch size or shape out of range.

    Notes
    -----
    For every batch size and shape the largest ε within the tolerance is found by bisection, since the error grows
    with ε; among these the design that reads least is taken.  The average design keeps the upper 95% confidence limit
    of the mean within the tolerance, for the pairs of the trial are a sample.  The trial should have the proposals of
    the run that follows and be near its posterior: other proposals mean other decisions, and another error.

    The error in the acceptance probability bounds the error in the posterior only together with the speed of the
    chain (`total_variation_bound`): a slow chain needs a smaller tolerance.

    References
    ----------
    A. Korattikara, Y. Chen and M. Welling, Austerity in MCMC land: cutting the Metropolis–Hastings budget, ICML 2014,
    section 5.2 and appendix D.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 10)
    ...     _ = pm.Normal("y", mu, 1, observed=np.random.default_rng(0).normal(size=5_000))
    ...     design = pma.design_test(pma.ApproxMH(proxy=None), tolerance=0.02, n_pairs=100, tune=300)
    ...     step = pma.ApproxMH(proxy=None, **design)
    >>> design.error <= 0.02, design.share < 1
    (True, True)
    """
    check_tolerance(tolerance)
    if not (isinstance(kind, str) and kind in ("average", "worst-case")):
        raise ValueError(f"kind={kind!r} must be 'average' or 'worst-case'.")
    if isinstance(step_or_trial, Trial):
        if trial_settings:
            raise TypeError(f"{sorted(trial_settings)} are settings of a trial chain, and a Trial was given.")
        trial = step_or_trial
    else:
        trial = run_trial(step_or_trial, **trial_settings)
    sizes = default_sizes(trial.n_rows) if batch_sizes is None else list(batch_sizes)
    designs = [_largest_epsilon(trial, tolerance, kind, m, alpha) for m in sizes for alpha in alphas]
    if not designs:
        raise ValueError("batch_sizes and alphas must each offer at least one value.")
    return min(designs, key=lambda design: design.share if kind == "average" else design.worst_share)


def check_tolerance(tolerance: float) -> None:
    """Refuse what is no error of a probability."""
    if not 0 < tolerance < 1:
        raise ValueError(
            f"tolerance={tolerance} is an error of a probability, between 0 and 1. For no error use epsilon=0."
        )


def default_sizes(n_rows: int, most_looks: int = _MOST_LOOKS) -> list[int]:
    """Return round numbers of rows from 100, or N over the looks allowed, to half of all rows."""
    fewest = max(_FEWEST_ROWS, n_rows / most_looks)
    sizes = [k * 10**e for e in range(2, 12) for k in (1, 2, 5) if fewest <= k * 10**e <= n_rows / 2]
    return sizes or [max(2, n_rows // 2)]


def _largest_epsilon(trial: Trial, tolerance: float, kind: Kind, batch_size: int, alpha: float) -> Design:
    """Return the design with the largest ε within the tolerance, rounded down to three digits."""

    def excess(log_epsilon: float) -> float:
        found = _analysed(trial, 10**log_epsilon, batch_size, alpha)
        error = found.worst_error if kind == "worst-case" else _upper_limit(found, trial)
        return float(np.log(max(error, 1e-12) / tolerance))

    low, high = np.log10(_SMALLEST_EPSILON), np.log10(0.5)
    if excess(high) <= 0:
        epsilon = 0.5
    elif excess(low) > 0:
        epsilon = 0.0
    else:
        epsilon = _rounded_down(10 ** brentq(excess, low, high, xtol=1e-3))
    found = _analysed(trial, epsilon, batch_size, alpha)
    error, share = _over_pairs(found, trial)
    return Design(
        epsilon, batch_size, alpha, error, share, found.worst_error, found.worst_share, kind, tolerance, trial
    )


def _upper_limit(test: OperatingCharacteristic, trial: Trial) -> float:
    """Return the upper 95% confidence limit of the mean abs(Δ_a): other pairs than those of the trial are to come."""
    error = np.abs(acceptance_error(test, trial.log_ratio, trial.noise_sd)[0])
    return float(error.mean() + _CONFIDENCE * error.std() / np.sqrt(error.size))


def _rounded_down(epsilon: float) -> float:
    """Return `epsilon` less the imprecision of the bisection, with three digits."""
    digits = 10.0 ** (np.floor(np.log10(epsilon)) - 2)
    return float(f"{np.floor(epsilon * 0.995 / digits) * digits:.3g}")
