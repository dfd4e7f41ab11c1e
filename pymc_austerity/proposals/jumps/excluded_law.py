"""The law from which excluded coefficients are drawn, compiled, and reached by its address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import types

from pymc_austerity.compile.addresses import arrays_at, tuple_of
from pymc_austerity.compile.by_address import Reached, build_call, reach
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import VECTOR, Block, RowLikelihood
from pymc_austerity.likelihood.linked_functions import WITHOUT_ROWS
from pymc_austerity.likelihood.prior_laws import Law

_LOC_SCALE_DF = types.UniTuple(VECTOR, 3)


#: ``law(theta, others, *fixed)``: loc, scale and df, each of shape (D,), of coefficients that are excluded.
ExcludedLaw = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]
#: ``law(links, theta, others, fixed)``: the same for the model that the links lead to.
LinkedExcludedLaw = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]


def compile_law(law: Law, likelihood: RowLikelihood, beta: Block, compile_kwargs: dict[str, Any]) -> ExcludedLaw:
    """Compile a law of the coefficients, as a model has it."""
    graphs = [pt.broadcast_to(g, beta.shape).ravel().astype("float64") for g in law[1:]]
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed]
    compiled: ExcludedLaw = compile_part(inputs, graphs, **compile_kwargs)
    return compiled


def reach_law(law: ExcludedLaw, likelihood: RowLikelihood) -> Reached:
    """Compile the law of a model and return its function pointer."""
    fixed = tuple_of(likelihood.fixed)

    @njit
    def law_of(theta, others, fixed_at):  # type: ignore[no-untyped-def]
        loc, scale, df = law(theta, others, *arrays_at(fixed_at, fixed))
        return np.ascontiguousarray(loc), np.ascontiguousarray(scale), np.ascontiguousarray(df)

    return reach(law_of, *WITHOUT_ROWS)


_call = build_call(_LOC_SCALE_DF, *WITHOUT_ROWS)


@njit
def excluded_law_at(links, theta, others, fixed):  # type: ignore[no-untyped-def]
    """Return the law of whichever model the links lead to; a `LinkedExcludedLaw`."""
    return _call(links.excluded_law, theta, others, fixed)
