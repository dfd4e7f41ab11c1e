"""Products of a sparse matrix of data and parameters, row by row, from the entries that are there.

η = Xβ reads of row i the values v_ik and the columns j_ik of its entries: η_i = Σ_k v_ik β_{j_ik}.  Values and columns
are two data arrays like any others, with as many entries a row as the longest row has.  So are those of a matrix with
the rows on its second axis, as in ``dot(beta, X.T)``, and of one that the model makes from constants.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.sparse.math import Dot, StructuredDot
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.type import DenseTensorType, TensorType
from scipy import sparse

from pymc_austerity.likelihood.axis import NotRowWiseError
from pymc_austerity.likelihood.model_graph import value_of_constants
from pymc_austerity.likelihood.row_leaves import RowLeaf

_log = logging.getLogger("pymc_austerity")

#: Rows that are longer than this share of the columns take less memory, and less time, as dense ones.
_DENSE = 0.5
#: Stored entries, those that fill short rows included, over the entries that are there, from which a user should know.
_WASTEFUL = 4.0


class SparseProduct(NamedTuple):
    """A product Xβ of the model, or βᵀXᵀ."""

    matrix: Variable  # X, or Xᵀ
    factor: Variable  # β, a vector or a matrix
    turned: bool  # whether the matrix is the second factor, and the rows are on the last axis of the product

    def rows_first(self) -> Any:
        """Return the matrix with the axis first that the product keeps, or None where it is not of constants alone."""
        matrix = value_of_constants(self.matrix)
        return matrix.T if self.turned and matrix is not None else matrix

    def shared(self) -> Variable | None:
        """Return the sparse matrix that ``set_value`` may replace, which this one is or is computed from."""
        shared = (v for v in ancestors([self.matrix]) if isinstance(v, SharedVariable))
        return next((v for v in shared if isinstance(v.type, SparseTensorType)), None)

    def of_batch(self, leaves: Sequence[RowLeaf], rebuild: Callable[[Variable], Variable]) -> Variable:
        """Return the product with a batch of the rows that `leaves` hold."""
        factor = rebuild(self.factor).T if self.turned else rebuild(self.factor)
        values, *columns = (leaf.batch for leaf in leaves)
        if not columns:
            product = pt.dot(values, factor)
        else:
            if factor.type.ndim == 2:
                values = values[:, :, None]
            product = (values * factor[columns[0]]).sum(axis=1)
        return product.T if self.turned else product


def find_sparse_products(
    terms: Mapping[str, Sequence[Variable]], n_rows: int
) -> dict[Variable, tuple[SparseProduct, tuple[RowLeaf, ...]]]:
    """Find the products of a sparse matrix of `n_rows` rows that the row-wise terms read, as `find_row_leaves`.

    The leaves of each are values and columns of the entries of a row; the row itself where dense rows are smaller.
    """
    found: dict[Variable, tuple[SparseProduct, tuple[RowLeaf, ...]]] = {}
    leaves: list[tuple[Any, tuple[RowLeaf, ...]]] = []
    for name, variables in terms.items():
        for var in variables:
            if var in found or (product := sparse_product(var.owner)) is None:
                continue
            if (shared := product.shared()) is not None:
                raise NotRowWiseError(
                    f"{name!r} reads a sparse matrix that is a shared variable ({shared.name!r}). Its rows are taken "
                    "apart once, when the step is built, so data set later would not be seen. Give the matrix itself "
                    "to pytensor.sparse.dot."
                )
            matrix = product.rows_first()
            if matrix is None or matrix.shape[0] != n_rows:
                continue
            of_matrix = next((of for known, of in leaves if _is_same(known, matrix)), None)
            if of_matrix is None:
                of_matrix = tuple(_leaves(matrix, name, len(leaves)))
                leaves.append((matrix, of_matrix))
            found[var] = product, of_matrix
    return found


def sparse_product(node: Apply | None) -> SparseProduct | None:
    """Return the factors of a product of a sparse matrix and a dense vector or matrix, None for anything else."""
    if node is None or not isinstance(node.op, Dot | StructuredDot):
        return None
    first, second = node.inputs
    if isinstance(first.type, SparseTensorType) and isinstance(second.type, DenseTensorType):
        return SparseProduct(first, second, False)
    if isinstance(first.type, DenseTensorType) and isinstance(second.type, SparseTensorType):
        return SparseProduct(second, first, True)
    return None


def said_of_sparse(variables: Sequence[Variable]) -> str | None:
    """Return what to say of the first sparse matrix in graphs that is read otherwise than in a product."""
    for node in dict.fromkeys(var.owner for var in variables if var.owner is not None):
        if not any(isinstance(v.type, SparseTensorType) for v in node.inputs):
            continue
        if isinstance(node.outputs[0].type, SparseTensorType) or value_of_constants(node.outputs[0]) is not None:
            continue
        product = sparse_product(node)
        if product is None or (product.rows_first() is None and product.shared() is None):
            return (
                f"a sparse matrix enters op {node.op}, and of sparse matrices only products of constant ones are read "
                "by row. Write pytensor.sparse.dot(X, beta) with the matrix X of SciPy, which has a row for each of "
                "the data"
            )
    return None


def _is_same(a: Any, b: Any) -> bool:
    """Whether two tables hold the same: PyTensor copies a table that a model reads twice."""
    return (a.shape, a.dtype) == (b.shape, b.dtype) and not (a != b).nnz


def _leaves(matrix: sparse.csr_array | sparse.csc_array, name: str, number: int) -> Iterator[RowLeaf]:
    rows = sparse.csr_array(matrix)
    label = f"sparse matrix of shape {rows.shape} of {name!r}"
    lengths = np.diff(rows.indptr)
    longest = max(int(lengths.max()), 1)
    if longest > _DENSE * rows.shape[1]:
        yield _leaf(rows.toarray(), f"sparse_{number}", label)
        return
    _log.info(f"The {label} is read by its entries: {longest} a row at most, {lengths.mean():.3g} on average.")
    if longest * len(lengths) > _WASTEFUL * max(rows.nnz, 1):
        _log.warning(
            f"All rows of the {label} take the memory and the time of the longest, which has {longest} entries where "
            f"the average has {lengths.mean():.3g}. Rows of few entries would be read faster without the longest ones: "
            "cap the entries of a row, or sum rare columns into one."
        )
    # Short rows are filled up with zeros at column 0.
    there = np.arange(longest) < lengths[:, None]
    columns = np.zeros(there.shape, np.int32 if rows.shape[1] < 2**31 else np.int64)
    values = np.zeros(there.shape, rows.dtype)
    columns[there], values[there] = rows.indices, rows.data
    yield _leaf(values, f"sparse_values_{number}", f"values of the {label}")
    yield _leaf(columns, f"sparse_columns_{number}", f"columns of the {label}")


def _leaf(array: np.ndarray, batch: str, label: str) -> RowLeaf:
    batch_type = TensorType(str(array.dtype), shape=(None, *array.shape[1:]))
    return RowLeaf(pt.constant(array), batch_type(batch), label)
