"""Conditional priors of free variables: those of a location–scale family as graphs, and draws from any."""

import logging
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Variable

from pymc_austerity.compile.graph_compiler import BY_NUMPY

_log = logging.getLogger("pymc_austerity")

NORMAL, LAPLACE, STUDENT = 0, 1, 2


class Law(NamedTuple):
    """The conditional law of one variable given the others."""

    family: int  # NORMAL, LAPLACE or STUDENT
    loc: Variable  # this graph and the next broadcast to the shape of the variable
    scale: Variable
    df: Variable  # matters for STUDENT alone


def prior_laws(model: Model, variables: Sequence[Variable]) -> dict[str, Law]:
    """Return the laws of those value variables that are normal, Laplace, Student or Cauchy and not transformed.

    They are known by the names of the value variables, and graphs of these.
    """
    found = {}
    for value in variables:
        rv = model.values_to_rvs[value]
        if rv.owner is None or model.rvs_to_transforms.get(rv) is not None:
            continue
        kind = type(rv.owner.op)
        if kind not in _FAMILIES:
            continue
        parameters = rv.owner.op.dist_params(rv.owner)
        if kind is pm.StudentT.rv_type:
            df, loc, scale = parameters
        else:  # a Cauchy law has one degree of freedom
            (loc, scale), df = parameters, pt.ones(())
        found[value.name] = Law(_FAMILIES[kind], *model.replace_rvs_by_values([loc, scale, df]))
    return found


_FAMILIES = {
    pm.Normal.rv_type: NORMAL,
    pm.Laplace.rv_type: LAPLACE,
    pm.StudentT.rv_type: STUDENT,
    pm.Cauchy.rv_type: STUDENT,
}


def prior_draw(model: Model, names: Sequence[str], rng: np.random.Generator, draws: int = 1) -> dict[str, np.ndarray]:
    """Draw free variables, named as their values are; nothing where a distribution has no random draws.

    Several draws are along a first axis of the arrays.
    """
    if not names:
        return {}
    variables = {value.name: rv for value, rv in model.values_to_rvs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's word on parameters that another draw would not have
        try:
            drawn = pm.draw([variables[name] for name in names], draws=draws, random_seed=rng, mode=BY_NUMPY)
        except Exception as error:  # a distribution without random draws, or a parent without any
            _log.debug(f"{names} have no draws from their prior, so they are left where they start ({error}).")
            return {}
    return dict(zip(names, map(np.asarray, drawn), strict=True))
