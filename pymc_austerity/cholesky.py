"""Cholesky factors of matrices that a user's model leads to, or a word on what has none."""

import numpy as np
from scipy import linalg

from pymc_austerity.unsupported_model import UnsupportedModelError


class NoFactorError(UnsupportedModelError):
    """A matrix has no Cholesky factor."""


def cholesky_of(matrix: np.ndarray, name: str) -> np.ndarray:
    """Return the lower Cholesky factor of a symmetric matrix.

    Raises NoFactorError, with its `name`, for a matrix that is not finite, or not positive definite.
    """
    if not np.isfinite(matrix).all():
        raise NoFactorError(f"{name} is not finite")
    try:
        return linalg.cholesky(matrix, lower=True)
    except linalg.LinAlgError:
        raise NoFactorError(
            f"{name} is not positive definite: the model does not tell some of its parameters apart"
        ) from None


def is_positive_definite(matrix: np.ndarray) -> bool:
    """Return whether a symmetric matrix has a Cholesky factor."""
    try:
        linalg.cholesky(matrix, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return False
    return True
