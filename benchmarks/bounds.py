"""What the bounds on the remainders cost: seconds and memory to find c_i for every row, and the rows a draw they mean.

Run ``python benchmarks/bounds.py`` (``--rows`` and ``--columns`` to choose, ``--problems`` for real data).  The rows a
draw are those of Metropolis–Hastings with scalable subsampling (Prado, Nemeth and Sherlock 2024) where both ends of a
move are draws of the surrogate: Σc_i · 2E‖z‖^(k+1), for a surrogate whose covariance is the inverse Hessian.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pandas as pd
import pymc as pm
from kernel import logistic_data, logistic_model
from problems import PROBLEMS
from scipy import linalg, special

from pymc_austerity.likelihood import RemainderBounds, read_model


def moment(size: int, order: int) -> float:
    """E‖z‖^order of a standard normal z."""
    return float(2 ** (order / 2) * np.exp(special.gammaln((size + order) / 2) - special.gammaln(size / 2)))


def mode(X: np.ndarray, y: np.ndarray, precision: float) -> tuple[np.ndarray, np.ndarray]:
    """Mode of a logistic regression by Newton's method, and the Cholesky factor of the inverse Hessian there."""
    beta = np.zeros(X.shape[1])
    for _ in range(12):
        p = special.expit(X @ beta)
        hessian = (X.T * (p * (1 - p))) @ X + precision * np.eye(beta.size)
        beta = beta + linalg.solve(hessian, X.T @ (y - p) - precision * beta, assume_a="pos")
    return beta, linalg.cholesky(linalg.inv(hessian), lower=True)


def measure(name: str, model: pm.Model, precision: float, outside: float) -> list[dict[str, float | str]]:
    """Find the bounds of a logistic regression at both orders."""
    data = read_model(model, model.value_vars, None, None)
    X, y = (next(a for a in data.rows.arrays if a.ndim == ndim) for ndim in (2, 1))
    centre, factor = mode(X, y, precision)
    radius = np.sqrt(special.chdtri(centre.size, outside))
    lines = []
    for order in (2, 3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        c = RemainderBounds(data.likelihood, order)(centre, factor, radius, data.fixed, data.rows)
        seconds = time.process_time() - start
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        both = 2 * moment(centre.size, order + 1)
        largest_first = np.sort(c)[::-1]
        # Expected rows where the first m are always read and the others drawn.
        rows = np.arange(c.size) + both * np.cumsum(largest_first[::-1])[::-1]
        lines.append({
            "problem": name, "rows": c.size, "columns": centre.size, "order": order, "radius": radius, "CPU s": seconds,
            "MiB more": more, "rows a draw": both * c.sum() + 2 * outside * c.size,
            "some always read": rows.min() + 2 * outside * c.size, "of them": int(rows.argmin()),
        })  # fmt: skip
    return lines


#: Logistic regressions on real data, with the precision of their priors.
REAL = {"covtype x 11": 1.0, "covtype x 54": 1.0, "mnist 7v9": 10.0, "a9a": 1.0}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="*", default=[1e5, 1e6])
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--problems", nargs="*", choices=REAL, default=[])
    parser.add_argument(
        "--outside", type=float, default=1e-9, help="probability of leaving the ball, where all are read"
    )
    given = parser.parse_args()
    lines = []
    for n_rows in map(int, given.rows):
        model = logistic_model(*logistic_data(n_rows, given.columns, float))
        lines += measure("synthetic", model, 1.0, given.outside)
    for name in given.problems:
        lines += measure(name, PROBLEMS[name](), REAL[name], given.outside)
    print(pd.DataFrame(lines).to_string(index=False, float_format="{:,.3g}".format))


if __name__ == "__main__":
    main()
