"""Models whose rows are independent, and their data.

A problem is its data and a model of them; a model takes all rows, or a minibatch of them for PyMC's ADVI.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

FOLDER = Path(os.environ.get("PMA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
Arrays = tuple[Any, ...]
#: All rows as they are, or a minibatch of them.
Rows = Callable[..., Any]


def whole(*arrays: Any) -> Arrays:
    """Return all rows."""
    return arrays


class Problem(NamedTuple):
    """Data, and a model of them that takes their arrays."""

    data: Callable[[], Arrays]
    model: Callable[..., pm.Model]

    def build(self) -> pm.Model:
        """Return the model of all rows."""
        return self.model(self.data())


def load(name: str) -> dict[str, np.ndarray]:
    """Read a data set, or stop with the reason why it cannot be read."""
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there; this problem needs it. Leave it out with --problems.")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def standardise(X: np.ndarray) -> np.ndarray:
    """Centre and scale the columns that vary, and put a column of ones before them."""
    X = X.astype(float)
    X = X[:, X.std(axis=0) > 0]
    return np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])


def logistic_rows(n_rows: int, dimension: int) -> Arrays:
    """Draw covariates and labels, in pieces, so that the drawing itself needs little memory."""
    rng = np.random.default_rng(1)
    beta = rng.normal(size=dimension) / np.sqrt(dimension)
    X, y = np.empty((n_rows, dimension)), np.empty(n_rows, np.int64)
    for start in range(0, n_rows, 100_000):
        piece = slice(start, min(start + 100_000, n_rows))
        X[piece] = rng.standard_normal((piece.stop - start, dimension))
        y[piece] = rng.random(piece.stop - start) < 1 / (1 + np.exp(-X[piece] @ beta))
    return X, y


def counted_rows(n: int, d: int) -> Arrays:
    """Draw covariates, exposures of one, and counts."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d))
    return X, np.ones(n), rng.poisson(np.exp(X @ np.full(d, 0.2)))


def mixed_rows(n: int) -> Arrays:
    """Draw from two normals."""
    rng = np.random.default_rng(23)
    return (rng.normal(np.where(rng.random(n) < 0.5, -1.0, 1.0)),)


def flights() -> Arrays:
    """Read standardised covariates of flights and their delays in standard deviations."""
    data = load("nycflights13")
    return standardise(data["X"][:, :8]), data["y"] / data["y"].std()


def logistic(arrays: Arrays, rows: Rows = whole) -> pm.Model:
    """Logistic regression with normal priors."""
    with pm.Model() as model:
        X, y = rows(*arrays)
        beta = pm.Normal("beta", 0, 1, shape=arrays[0].shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta), observed=y, total_size=total(arrays, rows))
    return model


def poisson(arrays: Arrays, rows: Rows = whole) -> pm.Model:
    """Poisson regression with exposures."""
    with pm.Model() as model:
        X, exposure, y = rows(*arrays)
        beta = pm.Normal("beta", 0, 1, shape=arrays[0].shape[1])
        rate = exposure * pm.math.exp(pm.math.dot(X, beta))
        pm.Poisson("y", rate, observed=y, total_size=total(arrays, rows))
    return model


def student(arrays: Arrays, rows: Rows = whole) -> pm.Model:
    """Linear regression with errors of Student's, whose scale and degrees of freedom are unknown."""
    with pm.Model() as model:
        X, y = rows(*arrays)
        beta, sigma = pm.Normal("beta", 0, 1, shape=arrays[0].shape[1]), pm.HalfNormal("sigma", 1)
        mu, nu = pm.math.dot(X, beta), pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=mu, sigma=sigma, observed=y, total_size=total(arrays, rows))
    return model


def mixture(arrays: Arrays, rows: Rows = whole) -> pm.Model:
    """Two normals of unknown means in equal shares: whatever the data, a mode and its mirror image."""
    with pm.Model() as model:
        y = rows(*arrays)
        y = y[0] if isinstance(y, tuple) else y
        means = pm.Normal("means", 0, 3, shape=2)
        parts = [pm.Normal.dist(means[k], 1) for k in range(2)]
        pm.Mixture("y", w=np.array([0.5, 0.5]), comp_dists=parts, observed=y, total_size=total(arrays, rows))
    return model


def total(arrays: Arrays, rows: Rows) -> int | None:
    """Return the number of rows that a minibatch stands for."""
    return None if rows is whole else arrays[0].shape[0]


def synthetic(n_rows: float, dimension: int = 10) -> Problem:
    """Return a logistic regression on made-up rows."""
    return Problem(partial(logistic_rows, int(n_rows), dimension), logistic)
