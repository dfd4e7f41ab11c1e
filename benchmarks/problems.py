"""The models that proxies are judged on: real data where `../shared/data` has them, synthetic rows otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymc as pm
from kernel import logistic_data, logistic_model

FOLDER = Path(os.environ.get("PMA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


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


def dummies(codes: np.ndarray) -> np.ndarray:
    """Return an indicator for every level but the first."""
    return (codes[:, None] == np.unique(codes)[1:]).astype(float)


def covtype_quantities() -> pm.Model:
    """Logistic regression on the ten quantities of covtype, 581,012 rows."""
    data = load("covtype_binary")
    return logistic_model(standardise(data["X"][:, :10]), data["y"].astype(int))


def covtype() -> pm.Model:
    """Logistic regression on all 54 columns of covtype, most of them rare indicators, which stay 0 and 1."""
    data = load("covtype_binary")
    X = np.column_stack([standardise(data["X"][:, :10]), data["X"][:, 10:].astype(float)])
    return logistic_model(X, data["y"].astype(int))


def mnist() -> pm.Model:
    """Logistic regression of sevens against nines on 50 principal components, prior precision 10."""
    data = load("mnist_7v9")
    X = data["X_train"] / 255.0
    X -= X.mean(axis=0)
    components = np.linalg.svd(X, full_matrices=False)[2][:50]
    scores = X @ components.T
    labels = (data["y_train"] == data["y_train"].max()).astype(int)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1 / np.sqrt(10), shape=50)
        pm.Bernoulli("y", logit_p=pm.math.dot(scores, beta), observed=labels)
    return model


def a9a() -> pm.Model:
    """Logistic regression on the 123 indicators of a9a with an intercept."""
    data = load("a9a")
    X = np.column_stack([np.ones(len(data["X_train"])), data["X_train"].astype(float)])
    return logistic_model(X, data["y_train"].astype(int))


def claims() -> pm.Model:
    """Poisson regression of claim counts with exposure and indicators of area, brand, fuel and region."""
    data = load("fremtpl2freq")
    X, exposure = data["X"], np.minimum(data["exposure"], 1.0).astype(float)
    numbers = np.column_stack([X[:, :4], np.log(X[:, 4])])
    design = np.column_stack([standardise(numbers), *(dummies(X[:, k]) for k in range(5, 9))])
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=design.shape[1])
        rate = exposure * pm.math.exp(pm.math.dot(design, beta))
        pm.Poisson("y", rate, observed=np.minimum(data["y"], 4).astype(int))
    return model


def flight_rows() -> tuple[np.ndarray, np.ndarray]:
    """Read standardised covariates of flights and their delays in standard deviations."""
    data = load("nycflights13")
    return standardise(data["X"][:, :8]), data["y"] / data["y"].std()


def flights() -> pm.Model:
    """Linear regression of arrival delays with an unknown scale."""
    X, y = flight_rows()
    with pm.Model() as model:
        beta, sigma = pm.Normal("beta", 0, 1, shape=X.shape[1]), pm.HalfNormal("sigma", 1)
        pm.Normal("y", pm.math.dot(X, beta), sigma, observed=y)
    return model


def flights_student() -> pm.Model:
    """Linear regression of arrival delays with Student errors, unknown scale and degrees of freedom."""
    X, y = flight_rows()
    with pm.Model() as model:
        beta, sigma, nu = pm.Normal("beta", 0, 1, shape=X.shape[1]), pm.HalfNormal("sigma", 1), pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=pm.math.dot(X, beta), sigma=sigma, observed=y)
    return model


def softmax() -> pm.Model:
    """Softmax regression, 100,000 synthetic rows, five covariates, four classes."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(100_000, 5))
    scores = np.column_stack([np.zeros(len(X)), X @ rng.normal(size=(5, 3)) / 2])
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=(5, 3))
        eta = pm.math.concatenate([np.zeros((len(X), 1)), pm.math.dot(X, beta)], axis=1)
        pm.Categorical("y", logit_p=eta, observed=labels)
    return model


def radon(noncentred: bool = False) -> pm.Model:
    """Radon in 386 counties: intercepts and slopes by county, all scales unknown.

    The slopes, of which few houses in a county tell, suit NUTS better as multiples of their scale.
    """
    data = load("radon_all")
    county, floor = data["X"][:, 0].astype(int) - 1, (data["X"][:, 1] > 0).astype(float)
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 1, shape=2), pm.HalfNormal("scale", 1, shape=2)
        intercept = pm.Normal("intercept", mean[0], scale[0], shape=386)
        if noncentred:
            slope = pm.Deterministic("slope", mean[1] + scale[1] * pm.Normal("z", 0, 1, shape=386))
        else:
            slope = pm.Normal("slope", mean[1], scale[1], shape=386)
        uranium, sigma = pm.Normal("uranium", 0, 1), pm.HalfNormal("sigma", 1)
        eta = intercept[county] + slope[county] * floor + uranium * data["X"][:, 2].astype(float)
        pm.Normal("y", eta, sigma, observed=data["y"].astype(float))
    return model


def hierarchical() -> pm.Model:
    """Hierarchical logistic regression: 200,000 rows, 100 groups of 0 to about 15,000 rows, ten slopes."""
    rng = np.random.default_rng(6)
    n, groups = 200_000, 100
    shares = np.sort(rng.dirichlet(np.full(groups, 0.7)))
    shares[0] = 0.0
    group = rng.choice(groups, n, p=shares / shares.sum())
    X, beta = rng.normal(size=(n, 10)), rng.normal(size=10) / 3
    effect = rng.normal(-0.5, 0.7, groups)
    y = rng.random(n) < 1 / (1 + np.exp(-(effect[group] + X @ beta)))
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 1), pm.HalfNormal("scale", 1)
        intercept, slopes = pm.Normal("intercept", mean, scale, shape=groups), pm.Normal("slopes", 0, 1, shape=10)
        pm.Bernoulli("y", logit_p=intercept[group] + pm.math.dot(X, slopes), observed=y.astype(int))
    return model


def synthetic() -> pm.Model:
    """Logistic regression on a million synthetic rows, ten coefficients."""
    return logistic_model(*logistic_data(1_000_000, 10, float))


PROBLEMS: dict[str, Callable[[], pm.Model]] = {
    "covtype x 11": covtype_quantities,
    "covtype x 54": covtype,
    "mnist 7v9": mnist,
    "a9a": a9a,
    "claims": claims,
    "flights": flights,
    "flights, Student": flights_student,
    "softmax": softmax,
    "radon": radon,
    "hierarchical logistic": hierarchical,
    "synthetic 1e6 x 10": synthetic,
}
