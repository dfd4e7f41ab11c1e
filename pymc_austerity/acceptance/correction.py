"""The correction distribution of Barker's minibatch test: what a normal variable lacks to be logistic.

C_σ is the distribution with N(0, σ²) ∗ C_σ ≈ standard logistic (Seita, Pan, Chen and Canny 2016, section 4).
None is exact: the quotient of the characteristic functions grows without bound.  The best one on a grid is found
by non-negative least squares, its largest error is computed, and both are kept on disk.
"""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import platformdirs
from scipy import optimize, special

from pymc_austerity.digests import digest_of_all

_log = logging.getLogger("pymc_austerity")

#: Beyond ±20 a logistic variable has probability 4e-9; the sum is matched a little further out.
_REACH, _MARGIN = 20.0, 4.0
#: Distance of the grid points in units of σ: a normal distribution function is smooth on this scale.
_SPACING = 0.05
#: Weight of the row that asks the probabilities for a sum of one, far above that of the others.
_SUM_WEIGHT = 1e3
#: Part of the file name; a new way of computing gets a new one.
_FORMAT = 2


class Correction(NamedTuple):
    """A discrete distribution, symmetric about zero, and how well it does."""

    sigma: float  # standard deviation σ of the normal variable that it is added to
    atoms: np.ndarray  # values, increasing, shape (A,)
    cumulative: np.ndarray  # probability of each value or a smaller one; the last is 1, shape (A,)
    error: float  # largest difference between the distribution function of N(0, σ²) + C_σ and the logistic one


@lru_cache(maxsize=8)
def correction(sigma: float) -> Correction:
    """Return C_σ for σ between 0 and π/√3, computed once for each σ and then read from the user's cache folder.

    The folder is ``platformdirs.user_cache_dir("pymc-austerity")``; where it cannot be written the distribution is
    computed anew in each process, in about half a second.
    """
    path = Path(platformdirs.user_cache_dir("pymc-austerity")) / f"correction-v{_FORMAT}-{sigma:.17g}.npz"
    found = _read(path, sigma)
    if found is None:
        found = solve_correction(sigma)
        _write(path, found)
    return found


def solve_correction(sigma: float) -> Correction:
    """Compute C_σ by non-negative least squares on the distribution function.

    The paper solves a ridge regression on a grid of 8,001 points and clips what is negative.  Asking for
    non-negative weights from the start leaves no clipping error, and the penalty is then not needed: the
    solution is a few dozen atoms.
    """
    x = np.arange(0.0, _REACH, _SPACING * sigma)
    y = np.arange(0.0, _REACH + _MARGIN, _SPACING * sigma)
    # Symmetry halves the problem: weight u_j is shared by x_j and −x_j.
    matrix = np.vstack([_distribution_function(y, x, sigma), np.full((1, x.size), _SUM_WEIGHT)])
    target = np.append(special.expit(y), _SUM_WEIGHT)
    weights, _ = optimize.nnls(matrix, target, maxiter=50 * x.size)
    keep = weights > 0
    x, weights = x[keep], weights[keep] / weights.sum()
    atoms = np.concatenate([-x[::-1], x])
    probabilities = np.concatenate([weights[::-1], weights]) / 2
    cumulative = np.cumsum(probabilities)
    cumulative[-1] = 1.0
    return Correction(float(sigma), atoms, cumulative, sup_error(atoms, probabilities, sigma))


def _distribution_function(y: np.ndarray, x: np.ndarray, sigma: float) -> np.ndarray:
    """Return P(N(0, σ²) ± x_j ≤ y_i) with a fair sign."""
    up, down = (y[:, None] - x) / sigma, (y[:, None] + x) / sigma
    result: np.ndarray = (special.ndtr(up) + special.ndtr(down)) / 2
    return result


def sup_error(atoms: np.ndarray, probabilities: np.ndarray, sigma: float) -> float:
    """Return the largest distance to the logistic distribution function, on a fine grid over ±40."""
    y = np.linspace(-40, 40, 16_001)
    difference = special.ndtr((y[:, None] - atoms) / sigma) @ probabilities - special.expit(y)
    return float(np.abs(difference).max())


def _read(path: Path, sigma: float) -> Correction | None:
    """Return what is stored where it is what was written, whatever happened to the file."""
    try:
        with path.open("rb") as file, np.load(file) as stored:
            found, digest = [stored[name] for name in Correction._fields], str(stored["digest"])
        if found[0] != sigma or digest_of_all(found) != digest:
            raise ValueError("it is not what was written")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as problem:  # NumPy and zipfile raise errors of every type for files that are damaged
        _log.warning(f"The stored correction distribution {path} cannot be read ({problem}); it is computed anew.")
        return None
    _, atoms, cumulative, error = found
    return Correction(sigma, atoms, cumulative, float(error))


def _write(path: Path, found: Correction) -> None:
    """Store for other processes; a reader sees the whole file or none."""
    being_written = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            being_written = Path(file.name)
            np.savez(file, digest=np.array(digest_of_all(map(np.asarray, found))), **found._asdict())
        os.replace(being_written, path)
    except Exception as problem:  # of a full disk zipfile makes a ValueError
        _log.info(f"The correction distribution is not stored for next time: {problem}.")
        if being_written is not None:
            with suppress(OSError):
                being_written.unlink()
