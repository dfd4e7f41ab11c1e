"""A uniform prior on matrices with orthonormal columns or rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable

from pymc_austerity.argument_kinds import is_whole
from pymc_austerity.user_input import takes

#: A value with an entry of W Wᵀ − I larger than this was never on the manifold; rounding stays a million times below.
_TOLERANCE = 1e-8
_REMEDY = (
    "Start from orthonormal columns (rows, of a wide matrix), such as numpy.linalg.qr(A)[0], or declare the variable "
    "as pymc_austerity.UniformStiefel(name, shape=...), which starts from the identity."
)


class UniformStiefel:
    """Uniform prior on matrices with orthonormal columns, or orthonormal rows where there are more columns than rows.

    The uniform law on the Stiefel manifold is the one that no rotation changes (Haar measure).  Its log density by that
    measure is 0; off the manifold it is −∞, so NUTS and other samplers that step into the surrounding space cannot move
    such a variable.  Use ``pymc_austerity.StiefelWalk()`` as the proposal of a step of this package.

    Parameters
    ----------
    name : str
        Name of the variable.
    shape : (int, int)
        Rows and columns of the matrix.
    start : array_like of that shape, optional
        Where chains start; the identity (with zeros below or beside it) by default.
    dims : sequence of str, optional
        Names of the two dimensions in the model.

    Raises
    ------
    ValueError
        For a shape that is not that of a matrix with more than one entry, or a start that is not orthonormal.

    Notes
    -----
    Another prior is declared by a ``pm.Potential`` beside it: its density by the uniform law.

    References
    ----------
    Y. Chikuse, Statistics on Special Manifolds, 2003.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     W = pma.UniformStiefel("W", shape=(3, 3))
    >>> draw = pm.draw(W, random_seed=1)
    >>> bool(np.allclose(draw @ draw.T, np.eye(3)))
    True
    """

    @takes()
    def __new__(
        cls, name: str, shape: tuple[int, int], *, start: ArrayLike | None = None, dims: Sequence[str] | None = None
    ) -> Variable:
        """Add the variable to the model in whose context this is called."""
        whole = isinstance(shape, Sequence) and all(is_whole(n, 1) for n in shape)
        if not whole or len(shape) != 2 or max(shape) < 2:
            raise ValueError(
                f"UniformStiefel({name!r}, shape={shape}) needs the rows and columns of a matrix, such as (4, 2). A "
                "unit vector of length n has shape (n, 1)."
            )
        centre = np.eye(*shape) if start is None else np.array(start, dtype=float)
        if centre.shape != tuple(shape):
            raise ValueError(f"UniformStiefel({name!r}) has shape {shape}, but its start has shape {centre.shape}.")
        _require_orthonormal(name, centre)
        return pm.CustomDist(
            name,
            centre,
            logp=_log_density,
            dist=_uniform_draw,
            support_point=lambda rv, size, start: start,
            signature="(n,p)->(n,p)",
            class_name="UniformStiefel",
            **({} if dims is None else {"dims": dims}),
        )


def _log_density(value: Variable, start: Variable) -> Variable:
    n, p = start.type.shape
    gram = value.T @ value if n >= p else value @ value.T
    return pt.switch(pt.all(pt.abs(gram - np.eye(min(n, p))) < _TOLERANCE), 0.0, -np.inf)


def _uniform_draw(start: Variable, size: Variable) -> Variable:
    """Draw by the QR decomposition of a normal matrix, with the signs that make it unique (Mezzadri 2007)."""
    n, p = start.type.shape
    q, r = pt.linalg.qr(pm.Normal.dist(0.0, 1.0, shape=(max(n, p), min(n, p))), mode="reduced")
    q = q * pt.sign(pt.diagonal(r))
    return q if n >= p else q.T


def _require_orthonormal(name: str, matrix: np.ndarray) -> None:
    rows, columns = matrix.shape
    gram = matrix.T @ matrix if rows >= columns else matrix @ matrix.T
    error = float(np.abs(gram - np.eye(min(rows, columns))).max())
    if not error < _TOLERANCE:
        raise ValueError(
            f"The start of {name!r} is not orthonormal: an entry of its matrix of inner products is off by "
            f"{error:.2g}. A walk on the manifold never gets there. {_REMEDY}"
        )
