"""Products of a matrix and a vector in compiled code, for a matrix that is diagonal, sparse or dense.

Which of them is known from the type, so a compiled caller holds only the one it needs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from scipy import sparse

#: Of more parameters than this an eigendecomposition takes a minute, and a Cholesky factor, where it does, seconds.
WIDE = 2_000
#: A symmetric matrix that is filled less than this is stored by its entries.
_SPARSE = 0.1


class CompressedRows(NamedTuple):
    """A sparse matrix by rows, as in SciPy's ``csr_array``."""

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray


#: The diagonal of shape (D,), the entries of a sparse matrix, or an array of shape (D, D).
LinearMap = np.ndarray | CompressedRows


def compressed(matrix: np.ndarray) -> LinearMap:
    """Return a dense matrix by its entries where most of them are zero, and as it is otherwise."""
    if np.count_nonzero(matrix) >= _SPARSE * matrix.size:
        return matrix
    rows = sparse.csr_array(matrix)
    return CompressedRows(rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data)


def dense(matrix: LinearMap) -> np.ndarray:
    """Return the matrix as an array of shape (D, D)."""
    if isinstance(matrix, CompressedRows):
        size = matrix.starts.size - 1
        return sparse.csr_array((matrix.values, matrix.columns, matrix.starts), (size, size)).toarray()
    return np.diag(matrix) if matrix.ndim == 1 else matrix


def product(matrix: LinearMap, vector: np.ndarray) -> np.ndarray:
    """Return A·v; for compiled code only."""
    raise NotImplementedError


@overload(product)
def _product(matrix, vector):  # type: ignore[no-untyped-def]
    if isinstance(matrix, types.BaseNamedTuple):
        return _sparse_product
    return _diagonal_product if matrix.ndim == 1 else lambda matrix, vector: np.dot(matrix, vector)


def _diagonal_product(matrix, vector):  # type: ignore[no-untyped-def]
    return matrix * vector


def _sparse_product(matrix, vector):  # type: ignore[no-untyped-def]
    result = np.empty(matrix.starts.size - 1)
    for i in range(result.size):
        total = 0.0
        for k in range(matrix.starts[i], matrix.starts[i + 1]):
            total += matrix.values[k] * vector[matrix.columns[k]]
        result[i] = total
    return result
