"""Derivatives of the log-gamma function in compiled code, where PyTensor calls SciPy row by row.

Densities are differentiated to them by an unknown shape, as of a negative binomial, Student t, gamma or beta.
"""

from collections.abc import Callable
from math import factorial
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.scalar.basic import UnaryScalarOp, upgrade_to_float_no_complex
from pytensor.scalar.math import PolyGamma, TriGamma
from pytensor.tensor.basic import get_underlying_scalar_constant_value
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.exceptions import NotScalarConstantError
from scipy import special

from pymc_austerity.compile.lean_njit import njit

#: From here on the series is exact to the last digits, for the orders that second derivatives of a density need.
_LARGE = 20.0
#: Below, where no density is defined, the steps to there would take forever.
_LOWEST = -1e4
#: B₂, B₄, … of the series.
_BERNOULLI = special.bernoulli(20)[2::2]


def build_polygamma(order: int) -> Callable[[float], float]:
    """Compile ψ⁽ⁿ⁾(x) for n ≥ 1: up to large arguments by ψ⁽ⁿ⁾(x) = ψ⁽ⁿ⁾(x + 1) − (−1)ⁿ n! x⁻ⁿ⁻¹, there by its series.

    The series is Abramowitz and Stegun's 6.4.11.
    """
    sign, n_factorial, before = (-1.0) ** (order + 1), float(factorial(order)), float(factorial(order - 1))
    # B₂ₖ (2k + n − 1)! / (2k)!
    terms = np.array([b * factorial(2 * k + order - 1) / factorial(2 * k) for k, b in enumerate(_BERNOULLI, start=1)])
    large = _LARGE + order

    @njit
    def polygamma(x):  # type: ignore[no-untyped-def]
        if not x > _LOWEST:
            return np.nan
        if x <= 0 and x == np.floor(x):
            return np.inf if order % 2 else -np.inf
        z, total = float(x), 0.0
        while z < large:
            total += n_factorial / z ** (order + 1)
            z += 1.0
        square, tail = 1 / (z * z), 0.0
        for k in range(terms.size - 1, -1, -1):
            tail = (tail + terms[k]) * square
        return sign * (total + (before + n_factorial / (2 * z) + tail) / z**order)

    return polygamma


class CompiledPolygamma(UnaryScalarOp):
    """ψ⁽ⁿ⁾(x) of one order n ≥ 1; see `build_polygamma`."""

    __props__ = ("order",)

    def __init__(self, order: int):
        self.order = order
        super().__init__(upgrade_to_float_no_complex, name=f"polygamma_{order}")

    def impl(self, x: float) -> float:
        """Return the value by SciPy."""
        return float(special.polygamma(self.order, x))


@node_rewriter([Elemwise])
def _use_compiled_polygamma(fgraph: Any, node: Apply) -> list[Variable] | None:
    scalar_op, x = node.op.scalar_op, node.inputs[-1]
    if isinstance(scalar_op, TriGamma):
        order = 1
    elif isinstance(scalar_op, PolyGamma):
        try:
            order = int(get_underlying_scalar_constant_value(node.inputs[0]))
        except NotScalarConstantError:
            return None
        if order < 1:
            return None
    else:
        return None
    return [Elemwise(CompiledPolygamma(order))(x)]


@numba_basic.register_funcify_and_cache_key(CompiledPolygamma)
def _compile_polygamma(op: CompiledPolygamma, node: Apply, **options: Any) -> tuple[Callable[..., Any], str]:
    return build_polygamma(op.order), f"{__name__} polygamma {op.order}, version 1"


rewrite_polygamma = dfs_rewriter(_use_compiled_polygamma)
