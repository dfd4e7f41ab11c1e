"""From the draws of a run back to the flat vectors that its step saw, and to the proposal it had tuned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from pymc.model import Model

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.compat import replace_parts
from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.diagnostics.results import SamplingResult, group, over_steps
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel import TUNED, Decider, Parts, restore
from pymc_austerity.likelihood import ModelData, flatten

#: Statistics that hold the settings of a test which was designed when tuning ended.
_DESIGNED = ("epsilon", "batch_size", "alpha")


class DrawnStates(NamedTuple):
    """Some draws of a run, in the unconstrained space."""

    #: Values of the variables that the step moves, shape (S, D), and of all others, shape (S, O).
    theta: np.ndarray
    others: np.ndarray
    #: Where they stand in the run.
    chain: np.ndarray
    draw: np.ndarray


def check_has_variables(idata: SamplingResult, model: Model) -> None:
    """Refuse a run without draws of every free variable of a model."""
    posterior = group(idata, "posterior")
    if missing := [rv.name for rv in model.free_RVs if rv.name not in posterior]:
        raise ValueError(
            f"idata: the posterior has no draws of {missing}, so the states of the chain cannot be put together. Pass "
            "a run that kept all free variables (see var_names= of pm.sample), and the model that it was made with."
        )


def drawn_points(
    idata: SamplingResult, model: Model, n_points: int
) -> tuple[list[dict[str, np.ndarray]], np.ndarray, np.ndarray]:
    """Return evenly spaced draws of all chains, all of them where they are no more than `n_points`.

    Draws are in the unconstrained space, by the names of value variables; beside them are their chains and places.
    """
    check_has_variables(idata, model)
    posterior = group(idata, "posterior")
    n_chains, n_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    place = np.unique(np.linspace(0, n_chains * n_draws - 1, min(n_points, n_chains * n_draws)).astype(int))
    chain, draw = np.divmod(place, n_draws)
    values = [
        posterior[rv.name].transpose("chain", "draw", ...).to_numpy()[chain, draw].astype(rv.dtype)
        for rv in model.free_RVs
    ]
    unconstrain = _compile_transforms(model)
    names = [value.name for value in (model.rvs_to_values[rv] for rv in model.free_RVs)]
    points = [dict(zip(names, uninterrupted(unconstrain, *(v[i] for v in values)))) for i in range(len(place))]
    return points, chain, draw


def drawn_states(idata: SamplingResult, model: Model, data: Parts | ModelData, n_states: int) -> DrawnStates:
    """Return evenly spaced draws of all chains as the step saw them."""
    points, chain, draw = drawn_points(idata, model, n_states)
    return DrawnStates(
        np.array([data.coordinates.theta(p) for p in points]),
        np.array([flatten(p, data.likelihood.other_blocks) for p in points]).reshape(len(points), -1),
        chain,
        draw,
    )


def _compile_transforms(model: Model) -> Any:
    """Compile the map from values of the free variables to those in the unconstrained space."""
    inputs = {rv: rv.type(f"{rv.name}_drawn") for rv in model.free_RVs}
    outputs = []
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        outputs.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
    # The parents of a bound may be variables themselves.
    outputs = [replace_parts(o.copy(), inputs) for o in outputs]
    return interpret_log_density(list(inputs.values()), outputs)


def test_of_chain(decider: Decider, stats: xr.Dataset, chain: int) -> AcceptanceTest:
    """Return the test that decided in one chain: that of the step, or the one that it designed after tuning."""
    last = {name: stats[name].isel(chain=chain, draw=-1).to_numpy().ravel()[0] for name in _DESIGNED if name in stats}
    return decider.test.as_recorded(last)


def state_of_chain(decider: Decider, stats: xr.Dataset, chain: int) -> Any:
    """Return the state of the proposal after tuning in one chain of the run."""
    columns = over_steps(stats[TUNED].isel(chain=chain)).transpose("step", "draw").to_numpy() if TUNED in stats else ()
    return restore(decider, columns, stats["scaling"].isel(chain=chain, draw=-1).to_numpy().ravel()[0])
