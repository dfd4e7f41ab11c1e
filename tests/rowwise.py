"""A model read as a step reads it, with its rows evaluated by NumPy as they are written."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.replace import graph_replace

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood import read_model

#: To simplify a graph takes longer than its use.
AS_WRITTEN = Mode(linker="py", optimizer="merge")
#: Or C is compiled for constants of a graph, and by numba the range of a column, which PyMC asks for to build a model.
by_numpy = pytensor.config.change_flags(cxx="", linker="py")


def built(define):
    with pm.Model() as model:
        define()
    return model


def read(define, observed=None):
    """Return a model and the data that a step reads of it."""
    with by_numpy:
        model = built(define)
        return model, read_model(model, model.value_vars, observed, None)


def evaluated(likelihood, outputs=None, mode=AS_WRITTEN):
    """Return a function of θ, the variables of other steps and the data that returns `outputs`, by default the rows."""
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
    with by_numpy:
        outputs = likelihood.row_log_likelihood if outputs is None else outputs
        return pm.compile(inputs, outputs, mode=mode, on_unused_input="ignore")


def moved(point, spread=0.3, seed=1):
    """Return a point whose real variables are moved by noise."""
    rng = np.random.default_rng(seed)
    return {
        name: value + spread * rng.standard_normal(np.shape(value)) if np.asarray(value).dtype.kind == "f" else value
        for name, value in point.items()
    }


def taylor_terms(likelihood, order):
    """Return functions of θ and the data: the rows, and the same with `order` derivatives along a direction."""
    theta, s = likelihood.theta, pt.dscalar("s")
    along, data = theta.type("along"), [*likelihood.fixed, *likelihood.batches]
    terms = graph_replace([likelihood.row_log_likelihood], {theta: theta + s * along}, strict=False)
    for _ in range(order):
        terms.append(pushforward(terms[-1], s, pt.ones_like(s)))
    terms = graph_replace(terms, {s: pt.constant(0.0, dtype="float64")}, strict=False)
    options = {"mode": BY_NUMPY, "on_unused_input": "ignore"}
    rows = pytensor.function([theta, *data], likelihood.row_log_likelihood, **options)
    return rows, pytensor.function([theta, along, *data], terms, **options)
