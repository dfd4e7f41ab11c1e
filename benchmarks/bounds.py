"""What the bounds on the remainders cost: seconds and memory to find c_i for every row, and the rows a draw they mean.

Run ``python benchmarks/bounds.py`` (``--rows`` and ``--columns`` to choose).  The rows a draw are those of Metropolis–
Hastings with scalable subsampling (Prado, Nemeth and Sherlock 2024) where both ends of a move are draws of the
surrogate: Σc_i · 2E‖z‖^(k+1), for a surrogate whose covariance is the inverse Hessian.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pandas as pd
import pymc as pm
from kernel import logistic_data, logistic_model
from scipy import linalg, special

from pymc_austerity.likelihood import RemainderBounds, read_model


def moment(size: int, order: int) -> float:
    """E‖z‖^order of a standard normal z."""
    return float(2 ** (order / 2) * np.exp(special.gammaln((size + order) / 2) - special.gammaln(size / 2)))


def measure(model: pm.Model, factor: np.ndarray, centre: np.ndarray, order: int) -> dict[str, float]:
    """Find the bounds of a model."""
    data = read_model(model, model.value_vars, None, None)
    size = centre.size
    radius = np.sqrt(special.chdtri(size, 1e-9))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    bounds = RemainderBounds(data.likelihood, order)
    built = time.process_time()
    c = bounds(centre, factor, radius, data.fixed, data.rows)
    return {
        "rows": len(data.rows),
        "columns": size,
        "order": order,
        "CPU s to find predictors": built - start,
        "CPU s to bound": time.process_time() - built,
        "MiB more": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "rows a draw": 2 * c.sum() * moment(size, order + 1),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e5, 1e6])
    parser.add_argument("--columns", type=int, default=10)
    given = parser.parse_args()
    lines = []
    for n_rows in map(int, given.rows):
        X, y = logistic_data(n_rows, given.columns, float)
        model = logistic_model(X, y)
        beta = np.zeros(given.columns)
        for _ in range(8):  # Newton's method
            p = special.expit(X @ beta)
            hessian = (X.T * (p * (1 - p))) @ X + np.eye(given.columns)
            beta = beta + linalg.solve(hessian, X.T @ (y - p) - beta, assume_a="pos")
        factor = linalg.cholesky(linalg.inv(hessian), lower=True)
        lines += [measure(model, factor, beta, order) for order in (2, 3)]
    print(pd.DataFrame(lines).to_string(index=False, float_format="{:,.3g}".format))


if __name__ == "__main__":
    main()
