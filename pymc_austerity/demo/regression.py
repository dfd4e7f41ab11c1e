"""The tables that the demo can take, the regression that fits an outcome, and the step that is recommended for it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
from scipy import special

from pymc_austerity.steps import MHSS, PenaltyMH

FAMILIES = {"yes/no": "logistic", "count": "negative binomial", "measurement": "linear"}
#: What `recommend` names for each family at 100,000 rows and more.
STEPS = {"yes/no": MHSS, "count": PenaltyMH, "measurement": MHSS}


def synthetic(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of any size: nine independent normal covariates and a yes/no with known slopes."""
    if n_rows < 100:
        raise ValueError(f"--rows {n_rows}: a table of at least 100 rows is needed to draw some of them.")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 9))
    y = rng.random(n_rows) < special.expit(-0.5 + X @ np.linspace(-0.8, 0.8, 9))
    return pd.DataFrame(X).add_prefix("x"), y.astype(int)


def rand_health_insurance() -> tuple[pd.DataFrame, np.ndarray]:
    """Return covariates of the RAND Health Insurance Experiment, shape (20190, 9), and who saw a doctor in that year.

    W. G. Manning et al., Health Insurance and the Demand for Medical Care: Evidence from a Randomized Experiment,
    American Economic Review 77(3), 1987; in the form of A. C. Cameron and P. K. Trivedi, Microeconometrics, Cambridge
    2005. The data are in the public domain.
    """
    try:
        from statsmodels.datasets import randhie
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "statsmodels, which carries the demo's data, is not installed. "
            "Run `pip install 'pymc-austerity[demo]'`, or give rows of your own with --data file.npz."
        ) from error
    rows = randhie.load_pandas().data
    return rows.drop(columns="mdvis"), (rows["mdvis"] > 0).to_numpy().astype(int)


def rows_from_file(path: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the arrays ``X``, shape (rows, covariates), and ``y`` of a file written by ``numpy.savez``."""
    with np.load(path) as arrays:
        if missing := {"X", "y"} - set(arrays.files):
            raise ValueError(
                f"{path}: no array {' and '.join(sorted(missing))} (found {arrays.files}). Save it with "
                "numpy.savez(path, X=..., y=...)."
            )
        X, y = arrays["X"], arrays["y"]
    if X.ndim != 2 or y.shape != X.shape[:1] or not X.size:
        raise ValueError(f"{path}: X has shape {X.shape} and y {y.shape}; they must be (rows, covariates) and (rows,).")
    for name, array in {"X": X, "y": y}.items():
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise ValueError(f"{path}: {name} holds {array.dtype} with NaN, infinite values or what is no number.")
    return pd.DataFrame(X).add_prefix("x"), y


def kind_of(y: np.ndarray) -> str:
    """Say whether an outcome is a yes/no, a count or a measurement."""
    if np.isin(y, (0, 1)).all():
        return "yes/no"
    return "count" if (y >= 0).all() and (y == np.round(y)).all() else "measurement"


def regression(X: pd.DataFrame, y: np.ndarray) -> pm.Model:
    """Return a regression of ``y`` on the standardised columns of ``X`` that vary.

    Logistic for 0/1, negative binomial for counts, linear with normal errors otherwise.
    """
    varying = X.loc[:, X.max() > X.min()]
    # Here and not in the model: a mean over rows inside the graph would tie every row to all others.
    Z = ((varying - varying.mean()) / varying.std()).to_numpy()
    kind = kind_of(y)
    with pm.Model(coords={"covariate": list(varying.columns)}) as model:
        intercept = pm.Normal("intercept", 0, 2.5)
        beta = pm.Normal("beta", 0, 1, dims="covariate")
        linear = intercept + Z @ beta
        if kind == "yes/no":
            pm.Bernoulli("y", logit_p=linear, observed=y)
        elif kind == "count":
            # Real counts vary more than a Poisson variable does; alpha takes that up.
            alpha = pm.Exponential("alpha", 1)
            pm.NegativeBinomial("y", mu=pm.math.exp(linear), alpha=alpha, observed=y)
        else:
            sigma = pm.HalfNormal("sigma", 1)
            pm.Normal("y", linear, sigma, observed=(y - y.mean()) / y.std())
    return model
