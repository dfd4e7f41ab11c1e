"""The tables that the demo can take: made up, of the RAND experiment, or from a file."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special


def synthetic(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of any size: nine independent normal covariates and a yes/no with known slopes."""
    if n_rows < 100:
        raise ValueError(f"--rows {n_rows}: a table of at least 100 rows is needed to draw some of them.")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 9))
    y = rng.random(n_rows) < special.expit(-0.5 + X @ np.linspace(-0.8, 0.8, 9))
    return pd.DataFrame(X).rename(columns=lambda column: f"x{column}"), y.astype(int)


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
        missing = {"X", "y"} - set(arrays.files)
        if missing:
            raise ValueError(
                f"{path}: no array {' and '.join(sorted(missing))} (found {arrays.files}), so there is "
                "nothing to regress. Save it with numpy.savez(path, X=..., y=...)."
            )
        X, y = arrays["X"], arrays["y"]
    if X.ndim != 2 or y.shape != X.shape[:1] or not X.size:
        raise ValueError(
            f"{path}: X has shape {X.shape} and y {y.shape}; X must be (rows, covariates) and y (rows,), so "
            "that row i of one belongs to row i of the other."
        )
    for name, array in {"X": X, "y": y}.items():
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{path}: {name} holds {array.dtype}, not numbers. Encode categories as numbers.")
        if not np.isfinite(array).all():
            raise ValueError(f"{path}: {name} holds NaN or infinite values. Remove or impute those rows.")
    return pd.DataFrame(X).rename(columns=lambda column: f"x{column}"), y
