"""The two parts that an expansion makes of the log-likelihood of all rows, and the density itself, by NumPy."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.gradient import grad

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.proxy.expansion import known_sum, row_remainder
from pymc_austerity.proxy.full_pass import Sums


def sums_at(likelihood, centre, rows):
    """Return the sum over all rows of what is expanded, its gradient and its Hessian."""
    total = likelihood.expanded.sum()
    gradient = grad(total, likelihood.theta)
    hessian = pt.stack([grad(gradient[k], likelihood.theta) for k in range(centre.size)])
    return Sums(*interpret_log_density([likelihood.theta, *likelihood.batches], [total, gradient, hessian])(
        centre, *rows.arrays
    ))  # fmt: skip


def changes(likelihood, rows, expansion, ends, order=2, bent=False):
    """Return how remainders of all rows and known sum change between two points, and how the log-likelihood does."""
    remainder, at = row_remainder(likelihood, order, bent)
    inputs = [likelihood.theta, at, *likelihood.batches]
    evaluate = interpret_log_density(inputs, [remainder.sum(), likelihood.row_log_likelihood.sum()])
    of_rows = np.subtract(*(evaluate(end, expansion.centre, *rows.arrays) for end in ends))
    known = np.subtract(*(known_sum(order)(end, np.empty(0), expansion) for end in ends))
    return of_rows[0] + known, of_rows[1]


def evaluate_as_written(inputs, graph):
    """Make a function of a graph by NumPy: to simplify it, or to compile C for a softmax, takes longer than its use."""
    with pytensor.config.change_flags(cxx=""):
        return pm.compile(inputs, graph, mode=Mode(linker="py", optimizer="merge"), on_unused_input="ignore")


def error_of_log_ratios(step, model, n_draws=50):
    """Largest error of the log ratios of accepted moves on all rows by `CrankNicolson`; other variables move too."""
    log_p, rng, errors = evaluate_as_written(model.value_vars, model.logp()), np.random.default_rng(3), []
    step.start_chain(np.random.default_rng(7))
    own, moves = [v.name for v in step.vars], step.chain.state
    point, _ = step.step(model.initial_point())  # from the start of the chain

    def log_p_over_q(at):
        x = moves.whiten @ (np.concatenate([np.ravel(at[name]) for name in own]) - moves.centre)
        return log_p(*(at[v.name] for v in model.value_vars)) + x @ x / 2

    for _ in range(n_draws):
        point = {name: x if name in own else x + 0.01 * rng.standard_normal(x.shape) for name, x in point.items()}
        new, (stat,) = step.step(point)
        if stat["accepted"]:
            errors.append(abs(log_p_over_q(new) - log_p_over_q(point) - stat["log_ratio"]))
        point = new
    assert len(errors) > 5
    return max(errors)
