"""Errors against a truth: risk against the time spent, with what a bias buys, and the distance of unmixing matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pymc_austerity.diagnostics.plots import new_panels, style_of
from pymc_austerity.user_input import takes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Draws whose function values are in memory at once.
_CHUNK = 2_000


@takes()
def risk_over_time(
    draws: ArrayLike,
    function: Callable[[np.ndarray], np.ndarray],
    truth: ArrayLike,
    seconds: ArrayLike,
    *,
    n_times: int = 40,
) -> pd.DataFrame:
    """Work out the mean squared error of running means against the time spent.

    The risk of an estimate from one chain is its squared bias plus its variance (Korattikara, Chen and Welling 2014,
    section 3).  The variance falls with time, the bias of an approximate chain does not.

    Parameters
    ----------
    draws : array_like, shape (chains, draws, D) or (chains, draws)
        Chains independent of each other, in the order in which they were drawn.
    function : callable
        Takes draws of shape (n, D) and returns values of shape (n, Q) whose posterior means are asked for.
    truth : array_like, shape (Q,)
        Those means, from a run that is far more precise.
    seconds : array_like, shape (chains, draws), or float
        Time at which each draw was there, from the start of its chain; or seconds a draw.
    n_times : int, default 40
        Times to look at, evenly spaced on a log scale from the tenth draw to the end of the shortest chain.

    Returns
    -------
    pandas.DataFrame
        Columns ``seconds``; ``risk``, the mean over chains and the Q values; ``risk_se``, its standard error from the
        spread of the chains; and ``draws`` a chain had made by then, on average.

    Raises
    ------
    ValueError
        For shapes that do not fit, fewer than two chains or ten draws, or times that do not increase.

    Examples
    --------
    >>> import numpy as np, pymc_austerity as pma
    >>> draws = np.random.default_rng(1).normal(size=(20, 1_000, 1))
    >>> curve = pma.risk_over_time(draws, lambda x: x, truth=[0.0], seconds=0.01)
    >>> bool(abs(np.log(curve["risk"].iloc[-1] / (1 / 1_000))) < 1)
    True
    """
    values, true = np.asarray(draws, dtype=float), np.asarray(truth, dtype=float)
    values = values[:, :, None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[0] < 2 or values.shape[1] < 10:
        raise ValueError(
            f"draws has shape {values.shape}; (chains, draws, D) with at least two chains, whose spread gives the "
            "error of the risk, and ten draws are needed."
        )
    stamps = np.asarray(seconds, dtype=float)
    if not stamps.ndim:
        stamps = np.broadcast_to(stamps * np.arange(1, values.shape[1] + 1), values.shape[:2])
    if stamps.shape != values.shape[:2] or stamps.min() < 0 or not (np.diff(stamps, axis=1) >= 0).all():
        raise ValueError(
            f"seconds has shape {stamps.shape} and must hold one time for each of the draws {values.shape[:2]}, "
            "not decreasing along a chain."
        )
    if n_times < 1 or not (np.isfinite(values).all() and np.isfinite(true).all()):
        raise ValueError(
            f"risk_over_time wants finite draws= and truth=, and n_times={n_times} must be at least 1: the error of an "
            "estimate that is no number is none."
        )
    times = np.geomspace(max(stamps[:, 9].max(), 1e-9), stamps[:, -1].min(), n_times)
    until = np.stack([np.searchsorted(chain, times, side="right") for chain in stamps])
    errors = np.stack([
        _squared_errors(chain, function, true, stops)
        for chain, stops in zip(values, until, strict=True)
    ])  # fmt: skip
    spread = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    return pd.DataFrame({"seconds": times, "risk": errors.mean(axis=0), "risk_se": spread, "draws": until.mean(axis=0)})


def _squared_errors(
    chain: np.ndarray, function: Callable[[np.ndarray], np.ndarray], truth: np.ndarray, stops: np.ndarray
) -> np.ndarray:
    """Return the squared error of the mean of the first n draws, averaged over the Q values, for every n in `stops`."""
    total, done, errors = np.zeros(truth.shape), 0, []
    for stop in stops:
        for start in range(done, stop, _CHUNK):
            found = np.asarray(function(chain[start : min(start + _CHUNK, stop)]))
            if found.shape[1:] != truth.shape:
                raise ValueError(f"function returns values of shape {found.shape}, and truth has shape {truth.shape}.")
            total += found.sum(axis=0)
        done = max(done, int(stop))
        errors.append(float(((total / done - truth) ** 2).mean()))
    return np.array(errors)


@takes()
def plot_risk(curves: Mapping[str, pd.DataFrame], *, axes: Sequence[Axes] | None = None) -> np.ndarray:
    """Plot the risk of several samplers against the time they took, as in Figure 2 of Korattikara et al. (2014).

    Parameters
    ----------
    curves : mapping of str to pandas.DataFrame
        What `risk_over_time` returned, by the name of the sampler.
    axes : sequence of one matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    numpy.ndarray of Axes, shape (1,)

    Raises
    ------
    ValueError
        If there is no curve, or ``axes`` is not one.

    Examples
    --------
    >>> import numpy as np, pymc_austerity as pma
    >>> draws = np.random.default_rng(1).normal(size=(2, 5, 1_000))
    >>> curves = {
    ...     name: pma.risk_over_time(x, lambda values: values, truth=[0.0], seconds=cost)
    ...     for name, x, cost in (("exact", draws[0], 0.02), ("approximate", draws[1] + 0.1, 0.002))
    ... }
    >>> (panel,) = pma.plot_risk(curves)
    >>> panel.get_ylabel()
    'risk'
    """
    if not curves:
        raise ValueError("curves: there is none to plot. Pass what risk_over_time returned, by name.")
    if wrong := [name for name, curve in curves.items() if not isinstance(curve, pd.DataFrame)]:
        raise TypeError(f"curves: {wrong[0]!r} is no table of risk_over_time. Pass what it returned, by name.")
    if axes is None:
        _, panel = new_panels(figsize=(6, 4))
        axes = [panel]
    if len(axes) != 1:
        raise ValueError(f"axes: one is needed, got {len(axes)}.")
    (panel,) = axes
    for number, (name, curve) in enumerate(curves.items()):
        style = style_of(number)
        panel.plot(curve["seconds"], curve["risk"], label=name, **style)
        # One standard error; a band to zero, which a logarithmic axis cannot show, would hide the others.
        low = np.maximum(curve["risk"] - curve["risk_se"], curve["risk"] / 3)
        high = curve["risk"] + curve["risk_se"]
        panel.fill_between(curve["seconds"], low, high, color=style["color"], alpha=0.15, lw=0)
    panel.set(xscale="log", yscale="log", xlabel="seconds", ylabel="risk")
    panel.legend(frameon=False, fontsize="small")
    return np.asarray(axes)


@takes()
def amari_distance(estimate: ArrayLike, truth: ArrayLike) -> np.ndarray:
    r"""Distance between unmixing matrices that ignores the order, sign and scale of their rows.

    With :math:`P = W W_0^{-1}` it is :math:`\sum_i (\sum_j |p_{ij}| / \max_k |p_{ik}| - 1)`, over the rows, plus the
    same over the columns: 0 for the same sources, at most :math:`2 D (D - 1)`.

    Parameters
    ----------
    estimate : array_like of shape (..., D, D)
        One or many unmixing matrices W, such as draws of a posterior.
    truth : array_like of shape (D, D)
        The unmixing matrix W₀ to compare with.

    Returns
    -------
    numpy.ndarray, shape (...)

    Raises
    ------
    ValueError
        For matrices that are not square or of different size, a `truth` without an inverse, or an `estimate` that
        leaves a source out.

    References
    ----------
    S. Amari, A. Cichocki and H. H. Yang, A new learning algorithm for blind signal separation, NIPS 8, 1996.

    Examples
    --------
    >>> import numpy as np, pymc_austerity as pma
    >>> float(pma.amari_distance([[0, 2], [-1, 0]], np.eye(2)))
    0.0
    >>> float(pma.amari_distance([[1, 1], [-1, 1]], np.eye(2)))
    4.0
    """
    found, true = np.asarray(estimate, dtype=float), np.asarray(truth, dtype=float)
    if true.ndim != 2 or true.shape[0] != true.shape[1] or found.shape[-2:] != true.shape:
        raise ValueError(
            f"amari_distance compares square matrices of one size; it was given shapes {found.shape} and "
            f"{true.shape}. Pass W with its two dimensions last."
        )
    if not (np.isfinite(found).all() and np.isfinite(true).all()):
        raise ValueError("amari_distance compares matrices of finite numbers, and one of them has others.")
    if np.linalg.matrix_rank(true) < len(true):
        raise ValueError("amari_distance: truth= has no inverse, so it separates no sources.")
    p = np.abs(found @ np.linalg.inv(true))
    if not (p.any(axis=-1).all() and p.any(axis=-2).all()):
        raise ValueError("amari_distance: estimate= has a matrix that leaves a source out, or a row of zeros.")
    over_rows = (p.sum(axis=-1) / p.max(axis=-1) - 1).sum(axis=-1)
    over_columns = (p.sum(axis=-2) / p.max(axis=-2) - 1).sum(axis=-1)
    return over_rows + over_columns
