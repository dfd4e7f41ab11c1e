"""What other shapes of bound would read: blocks of coordinates and clusters of rows, beside the one that `MHSS` has.

Run ``python benchmarks/bound_shapes.py`` (``--problems``, ``--clusters``).  Nothing is sampled: rows a draw are
predicted for draws z of a normal posterior, Σ_i min(1, 2 b_i) with b_i the bound on what is left of row i, on average
over z, and 1 for rows that are better read always.  With a_i = Lᵀx_i, the row in the whitened space, and k the order
plus one, b_i = κ_i u_i^k / k! and u_i is

- ``norm``: ‖a_i‖‖z‖, as it is;
- ``coordinates``: Σ_j |a_ij||z_j| with the symmetric root L, blocks of one coordinate each;
- ``blocks of 8``: Σ_b ‖a_ib‖‖z_b‖, coordinates that go together in one block;
- ``clusters``: |m_cᵀz| + ‖a_i − m_c‖‖z‖ for the centre m_c that is nearest to the row's direction;
- ``ideal``: |a_iᵀz|, which would take all rows to know.

κ_i is the largest derivative of a logistic row on its box, as `MHSS` finds it, the same for all shapes.
"""

from __future__ import annotations

import argparse
from math import factorial

import numpy as np
import pandas as pd
from problems import PROBLEMS
from scipy import cluster, linalg
from scipy.special import expit

from pymc_austerity.likelihood.elementary import softplus
from pymc_austerity.likelihood.intervals import Interval
from pymc_austerity.likelihood.row_likelihood import row_likelihood

DRAWS, RADIUS, BLOCK = 24, 6.0, 8


def whitened(name: str, most: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return predictors at the mode, the rows in the whitened space, and how many rows each of them stands for."""
    model = PROBLEMS[name]()
    arrays = row_likelihood(model)[1].row_arrays()
    X, y = (np.asarray(next(a for a in arrays if a.ndim == n), float) for n in (2, 1))
    precision = 10.0 if name.startswith("mnist") else 1.0
    theta = np.zeros(X.shape[1])
    for _ in range(30):
        p = expit(X @ theta)
        hessian = (X * (p * (1 - p))[:, None]).T @ X + precision * np.eye(theta.size)
        step = linalg.solve(hessian, X.T @ (y - p) - precision * theta, assume_a="pos")
        theta += step
        if np.abs(step).max() < 1e-10:
            break
    values, vectors = linalg.eigh(hessian)
    root = vectors / np.sqrt(values) @ vectors.T
    chosen = np.random.default_rng(0).choice(len(X), min(most, len(X)), replace=False)
    return X[chosen] @ theta, X[chosen] @ root, len(X) / len(chosen)


def together(rows: np.ndarray) -> np.ndarray:
    """Return the coordinates in an order in which those that are large in the same rows are neighbours."""
    size = np.abs(rows) / np.linalg.norm(rows, axis=1, keepdims=True)
    distance = 1 - np.nan_to_num(np.corrcoef(size.T), nan=0.0)
    condensed = distance[np.triu_indices(len(distance), 1)].clip(0)
    return cluster.hierarchy.leaves_list(cluster.hierarchy.linkage(condensed, "average"))


def reaches(rows: np.ndarray, z: np.ndarray, numbers: list[int]) -> dict[str, np.ndarray]:
    """Return u_i for each draw, shape (draws, rows), by shape of the bound."""
    lengths, away = np.linalg.norm(rows, axis=1), np.linalg.norm(z, axis=1)
    found = {"norm": away[:, None] * lengths, "coordinates": np.abs(z) @ np.abs(rows).T}
    order = together(rows)
    pieces = np.array_split(order, -(-order.size // BLOCK))
    found["blocks of 8"] = sum(
        np.linalg.norm(z[:, p], axis=1)[:, None] * np.linalg.norm(rows[:, p], axis=1) for p in pieces
    )
    for number in numbers:
        centres, label = cluster.vq.kmeans2(rows, number, iter=12, minit="points", seed=1, missing="warn")
        off = np.linalg.norm(rows - centres[label], axis=1)
        found[f"{number} clusters"] = np.minimum(
            np.abs(z @ centres.T)[:, label] + away[:, None] * off, away[:, None] * lengths
        )
    found["ideal"] = np.abs(z @ rows.T)
    return found


def predicted(name: str, numbers: list[int], most: int) -> dict[tuple[str, int], pd.Series]:
    """Return rows a draw for orders 2 and 3."""
    centre, rows, each = whitened(name, most)
    z = np.random.default_rng(1).normal(size=(DRAWS, rows.shape[1]))
    radius = np.linalg.norm(rows, axis=1) * (np.sqrt(rows.shape[1]) + RADIUS)
    largest = {k: softplus.range(k, Interval(centre - radius, centre + radius)).magnitude() for k in (3, 4)}
    reach = reaches(rows, z, numbers)
    found = {}
    for k in (3, 4):
        bounds = {shape: 2 * largest[k] / factorial(k) * u**k for shape, u in reach.items()}
        found[name, k - 1] = pd.Series({s: each * np.minimum(1, b.mean(axis=0)).sum() for s, b in bounds.items()})
    return found


def main() -> None:
    """Print rows a draw, a line a problem and order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["covtype x 54", "mnist 7v9", "a9a"], choices=list(PROBLEMS))
    parser.add_argument("--clusters", type=int, nargs="*", default=[100, 1_000])
    parser.add_argument("--most", type=int, default=20_000, help="rows that are looked at")
    options = parser.parse_args()
    found: dict[tuple[str, int], pd.Series] = {}
    for name in options.problems:
        found |= predicted(name, options.clusters, options.most)
        print(pd.DataFrame(found).T.to_string(float_format="{:,.0f}".format), flush=True)


if __name__ == "__main__":
    main()
