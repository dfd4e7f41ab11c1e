"""A step in words, as ``repr`` shows it, and what it says of a model before sampling."""

from __future__ import annotations

import logging
import math
import textwrap
import warnings
from collections.abc import Iterable
from itertools import permutations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, apply_ancestors
from pytensor.scalar import Cast

from pymc_austerity.likelihood.layout import user_name
from pymc_austerity.likelihood.model_graph import is_product

#: Columns of a terminal, and variables that are named before the others are counted.
_WIDTH, _NAMED = 80, 6


def describe_step(made_by: str, variables: Iterable[Variable], error: str, rows: str) -> str:
    """Write what a step is, in lines of 80 columns: what it moves, how the chain errs, and what `rows` a draw reads."""
    names = [user_name(str(v.name)) for v in variables]
    if len(names) > _NAMED:
        names = [*names[:_NAMED], f"{len(names) - _NAMED:,} more"]
    exact = f"approximate ({error})" if error else "exact"
    return textwrap.fill(f"{made_by}({', '.join(names)}): {exact}, {rows}", _WIDTH, subsequent_indent="    ")


def describe_rows(expected: float, n_rows: int, at_least: bool, called: str = "") -> str:
    """Write how many of the rows a draw reads, or reads `at_least`; `called` is a word for rows, and a space."""
    if expected == 0:
        return f"reads none of {n_rows:,} {called}rows"
    if expected >= n_rows:
        return f"reads all {n_rows:,} {called}rows a draw"
    number = f"{expected:,.0f}" if expected >= 10 else f"{expected:.2g}"
    return f"{number} or more" * at_least + f"about {number}" * (not at_least) + f" of {n_rows:,} {called}rows a draw"


_log = logging.getLogger("pymc_austerity")

#: Scales from which on they are those of single coefficients.
_MANY_SCALES = 10
_HEAVY_TAILS = (pm.HalfCauchy, pm.HalfStudentT)
#: Rows from which a variable with a value for each is worth a line.
_LONG = 5_000


def warn_of_local_scales(model: Model, name: str) -> None:
    """Warn where each of many coefficients has a scale of its own with heavy tails; `name` is that of the step."""
    point = model.initial_point()
    sizes = {rv: int(np.size(point[model.rvs_to_values[rv].name])) for rv in model.free_RVs}
    for rv, size in sizes.items():
        heavy = any(isinstance(rv.owner.op, law.rv_type) for law in _HEAVY_TAILS)
        if heavy and size >= _MANY_SCALES and any(other is not rv and n == size for other, n in sizes.items()):
            warnings.warn(
                f"{rv.name!r} has a scale with heavy tails for each of {size} coefficients, as in a horseshoe. Scales "
                f"and coefficients have no normal law in common, and {name}, which makes one decision over all of "
                "them, will hardly move: do not trust its draws without pma.reliability. Sample with pm.NUTS.",
                UserWarning,
                stacklevel=2,
            )


def warn_of_estimated_matrices(model: Model, name: str) -> None:
    """Warn where rows read a product such as ``L @ z`` with the factor L of a covariance that is estimated."""
    free = set(model.free_RVs)

    def read_by(var: Variable) -> list[str]:
        return [rv.name for rv in model.free_RVs if rv in above(var)]

    def above(var: Variable) -> set[Variable]:
        return free.intersection(ancestors([var], blockers=free))

    for node in apply_ancestors(model.observed_RVs, blockers=free):
        for matrix, of in permutations(node.inputs) if is_product(node) else ():
            rows, columns = matrix.type.shape if matrix.type.ndim == 2 else (None, 0)
            if rows == columns and above(matrix) and above(of) - above(matrix):
                warnings.warn(
                    f"Rows read the product of a matrix that is estimated, of {read_by(matrix)}, and of {read_by(of)}. "
                    f"No quadratic follows it, and {name}, which makes one decision over all parameters, will hardly "
                    "move: do not trust its draws without pma.reliability. Sample with pm.NUTS. Or write L @ z as what "
                    "it is, pm.MvNormal('b', 0, chol=L), and a Gaussian process with a length scale that is estimated "
                    "as pm.gp.HSGP.",
                    UserWarning,
                    stacklevel=2,
                )
                return


def warn_of_indicators(model: Model, variables: Iterable[Variable], name: str) -> None:
    """Warn of variables of 0 and 1 that move in one decision with all others."""
    for rv in (model.values_to_rvs[value] for value in variables):
        if not isinstance(rv.owner.op, pm.Bernoulli.rv_type):
            continue
        selected = next((other for other in model.free_RVs if _selects(model, rv, other)), None)
        jumps = (
            "" if selected is None else f"{name}(proposal=pma.ReversibleJump({selected.name!r}, {rv.name!r})), or with "
        )
        _log.warning(
            f"{rv.name!r} takes 0 or 1, and {name} proposes another value together with a step of all its other "
            "variables: where the rows tell much of it, it hardly ever switches. Sum it out (pm.Mixture, or "
            f"pm.math.logaddexp in a potential), or sample with {jumps}a step of its own beside {name}: "
            f"pm.BinaryGibbsMetropolis([{rv.name!r}])."
        )


def _selects(model: Model, indicators: Variable, of: Variable) -> bool:
    """Whether the model reads coefficients multiplied by indicators, one of each."""
    unbounded = of.type.dtype.startswith("float") and model.rvs_to_transforms[of] is None
    if not unbounded or of.type.shape != indicators.type.shape or not of.type.ndim:
        return False
    nodes = apply_ancestors([*model.observed_RVs, *model.potentials], blockers=model.free_RVs)
    return any(node.op == pt.mul and {indicators, of} <= {_uncast(v) for v in node.inputs} for node in nodes)


def _uncast(var: Variable) -> Variable:
    cast = isinstance(getattr(getattr(var.owner, "op", None), "scalar_op", None), Cast)
    return var.owner.inputs[0] if cast else var


def mention_row_deterministics(model: Model, n_rows: int) -> None:
    """Log the deterministic variables with a value for each row, which PyMC evaluates and stores with every draw."""
    sizes = {v.name: _size(model, v) for v in model.deterministics} if n_rows >= _LONG else {}
    long = {name: size for name, size in sizes.items() if size >= n_rows}
    if not long:
        return
    others = [v.name for v in model.unobserved_RVs if v.name not in long]
    shown = str(others) if len(others) <= 4 else f"[{', '.join(map(repr, others[:3]))}, ...]"
    _log.info(
        f"Deterministic {', '.join(long)} has a value for each of {n_rows:,} rows: pm.sample computes and stores "
        f"{8 * sum(long.values()) / 1e3:,.0f} kB with every draw, which can take longer than the draw. "
        f"pm.sample(var_names={shown}) leaves it out; pm.compute_deterministics adds it afterwards."
    )


def _size(model: Model, variable: Variable) -> int:
    """Return the entries of a variable as far as its type or its dims tell, else 0."""
    shape = list(variable.type.shape)
    dims = model.named_vars_to_dims.get(variable.name, (None,) * len(shape))
    for axis, dim in enumerate(dims):
        if shape[axis] is None and dim in model.dim_lengths:
            shape[axis] = int(model.dim_lengths[dim].eval())
    return 0 if None in shape else math.prod(shape)
