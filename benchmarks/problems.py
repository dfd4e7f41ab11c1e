"""Models whose rows are independent: real data where `../shared/data` has them, made-up rows otherwise.

A problem is its data and a model of them; a model takes all rows, or a minibatch of them for PyMC's ADVI.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.sparse as ps
from scipy import sparse

FOLDER = Path(os.environ.get("PMA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
#: From so many made-up rows on they are 32-bit numbers in a file.
_MAPPED = 50_000_000
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
    if n_rows < _MAPPED:
        X = np.empty((n_rows, dimension))
    else:
        file = Path(tempfile.mkdtemp()) / "X.npy"
        X = np.lib.format.open_memmap(file, "w+", np.float32, (n_rows, dimension))
    y = np.empty(n_rows, np.int64 if n_rows < _MAPPED else np.int8)
    for start in range(0, n_rows, 100_000):
        piece = slice(start, min(start + 100_000, n_rows))
        X[piece] = rng.standard_normal((piece.stop - start, dimension), X.dtype)
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


def classes(n: int) -> Arrays:
    """Draw five covariates and one of four classes."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 5))
    scores = np.column_stack([np.zeros(n), X @ rng.normal(size=(5, 3)) / 2])
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def covtype(all_columns: bool) -> Arrays:
    """Read forest cover, 581,012 rows: ten quantities, or all 54 columns, most of them rare indicators."""
    data = load("covtype_binary")
    X = standardise(data["X"][:, :10])
    if all_columns:
        X = np.column_stack([X, data["X"][:, 10:].astype(float)])
    return X, data["y"].astype(int)


def mnist() -> Arrays:
    """Read 50 principal components of handwritten sevens and nines."""
    data = load("mnist_7v9")
    X = data["X_train"] / 255.0
    X -= X.mean(axis=0)
    components = np.linalg.svd(X, full_matrices=False)[2][:50]
    return X @ components.T, (data["y_train"] == data["y_train"].max()).astype(int)


def a9a(sparsely: bool = False) -> Arrays:
    """Read the 123 indicators of a9a and a column of ones, as a dense table or by its entries."""
    data = load("a9a")
    X = np.column_stack([np.ones(len(data["X_train"])), data["X_train"].astype(float)])
    return sparse.csr_matrix(X) if sparsely else X, data["y_train"].astype(int)


def claims() -> Arrays:
    """Read covariates of policies with indicators of area, brand, fuel and region, their exposures and claims."""
    data = load("fremtpl2freq")
    X, exposure = data["X"], np.minimum(data["exposure"], 1.0).astype(float)
    numbers = np.column_stack([X[:, :4], np.log(X[:, 4])])
    indicators = [(X[:, k][:, None] == np.unique(X[:, k])[1:]).astype(float) for k in range(5, 9)]
    return np.column_stack([standardise(numbers), *indicators]), exposure, np.minimum(data["y"], 4).astype(int)


def flights() -> Arrays:
    """Read standardised covariates of flights and their delays in standard deviations."""
    data = load("nycflights13")
    return standardise(data["X"][:, :8]), data["y"] / data["y"].std()


def logistic(arrays: Arrays, rows: Rows = whole, sd: float = 1.0) -> pm.Model:
    """Logistic regression with normal priors."""
    with pm.Model() as model:
        X, y = rows(*arrays)
        beta = pm.Normal("beta", 0, sd, shape=arrays[0].shape[1])
        eta = ps.dot(X, beta) if sparse.issparse(X) else pm.math.dot(X, beta)
        pm.Bernoulli("y", logit_p=eta, observed=y, total_size=total(arrays, rows))
    return model


def poisson(arrays: Arrays, rows: Rows = whole, sd: float = 1.0) -> pm.Model:
    """Poisson regression with exposures."""
    with pm.Model() as model:
        X, exposure, y = rows(*arrays)
        beta = pm.Normal("beta", 0, sd, shape=arrays[0].shape[1])
        rate = exposure * pm.math.exp(pm.math.dot(X, beta))
        pm.Poisson("y", rate, observed=y, total_size=total(arrays, rows))
    return model


def linear(arrays: Arrays, rows: Rows = whole, student: bool = False) -> pm.Model:
    """Linear regression with normal errors or Student's, whose scale and degrees of freedom are unknown."""
    with pm.Model() as model:
        X, y = rows(*arrays)
        beta, sigma = pm.Normal("beta", 0, 1, shape=arrays[0].shape[1]), pm.HalfNormal("sigma", 1)
        law = {"mu": pm.math.dot(X, beta), "sigma": sigma, "observed": y, "total_size": total(arrays, rows)}
        if student:
            pm.StudentT("y", nu=pm.Gamma("nu", 2, 0.1), **law)
        else:
            pm.Normal("y", **law)
    return model


def softmax(arrays: Arrays, rows: Rows = whole) -> pm.Model:
    """Softmax regression of four classes on five covariates."""
    with pm.Model() as model:
        X, y = rows(*arrays)
        scores = pm.math.dot(X, pm.Normal("beta", 0, 1, shape=(5, 3)))
        eta = pm.math.concatenate([np.zeros((len(X), 1)), scores], axis=1)
        pm.Categorical("y", logit_p=eta, observed=y, total_size=total(arrays, rows))
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


PROBLEMS: dict[str, Problem] = {
    "covtype x 11": Problem(partial(covtype, False), logistic),
    "covtype x 54": Problem(partial(covtype, True), logistic),
    "mnist 7v9": Problem(mnist, partial(logistic, sd=1 / np.sqrt(10))),
    "a9a": Problem(a9a, logistic),
    "a9a, sparse": Problem(partial(a9a, True), logistic),
    "claims": Problem(claims, poisson),
    "flights": Problem(flights, linear),
    "flights, Student": Problem(flights, partial(linear, student=True)),
    "softmax": Problem(partial(classes, 100_000), softmax),
    "synthetic 1e5 x 10": synthetic(1e5),
    "synthetic 1e6 x 10": synthetic(1e6),
}
