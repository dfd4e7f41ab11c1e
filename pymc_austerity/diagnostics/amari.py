"""How far two unmixing matrices are from each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pymc_austerity.user_input import takes


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
