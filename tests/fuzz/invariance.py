"""Steps that move groups by themselves: the density that they read is PyMC's, and a draw of it stays one."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
from checks import ROUNDING, Found, agree, evaluated, tried

import pymc_austerity as pma
from pymc_austerity.acceptance import DECIDED
from pymc_austerity.groups import GroupDecider, read_groups
from pymc_austerity.groups.group_parts import data_by_reference
from pymc_austerity.kernel import pack_generators

#: Standard errors that a mean may change by: once in two million comparisons.
ERRORS = 5.0
#: Weighted draws that the mean of a function wants to be worth.
LEAST_WORTH = 150
#: How far a mean may move in a transition, in standard deviations, where decisions err by so much.
ALLOWED = 0.03

STEPS = {
    "GroupMH": pma.GroupMH,
    "GroupMH, all rows": partial(pma.GroupMH, test=pma.Exact()),
    "PenaltyMH": pma.PenaltyMH,
    "MHSS": pma.MHSS,
    "ExactMH": pma.ExactMH,
}


class Hierarchy:
    """A model as the moves of groups read it, evaluated by NumPy, and PyMC's density in the same coordinates."""

    def __init__(self, model):
        self.model = model
        self.read = read_groups(model)
        parts = self.read.data.likelihood
        at = [parts.theta, *parts.fixed]
        self._prior = evaluated(at, parts.log_prior)
        self._rows = evaluated([*at, *parts.batches], parts.row_log_likelihood.sum())
        self._pymc = evaluated(model.value_vars, model.logp())
        self._start = model.initial_point()

    def density(self, theta):
        """By the graphs that the step compiles."""
        data = self.read.data
        return float(self._prior(theta, *data.fixed) + self._rows(theta, *data.fixed, *data.rows.arrays))

    def by_pymc(self, theta):
        """By PyMC, with the Jacobian of the user's variables by the step's, by differences.

        It is affine in effects, so that differences of any size are exact, and not in a covariance.
        """
        coordinates = self.read.data.coordinates
        point = coordinates.point(self._start, theta)
        log_density = float(self._pymc(*[point[v.name] for v in self.model.value_vars]))
        covariances = [b.name for b in coordinates.blocks if b.name.endswith("cholesky-cov-packed__")]
        changed = [(coordinates.replaced, 1.0), *(([name], 1e-5) for name in covariances if coordinates.to_effects)]
        return log_density + sum(self._log_jacobian(theta, *of) for of in changed)

    def _log_jacobian(self, theta, names, length):
        """Of some variables alone: of effects given the covariance that they have, and of that by itself."""
        coordinates = self.read.data.coordinates
        places = [k for b in coordinates.blocks if b.name in names for k in range(b.start, b.stop)]

        def written(at):
            found = coordinates.point(self._start, at)
            return np.concatenate([np.ravel(found[name]) for name in names])

        steps = length * np.eye(theta.size)[places]
        jacobian = [(written(theta + e) - written(theta - e)) / (2 * length) for e in steps]
        return np.linalg.slogdet(np.stack(jacobian))[1] if places else 0.0


def check_read(hierarchy):
    """The density in terms of the effects that rows read is PyMC's."""
    rng, theta0 = np.random.default_rng(8), hierarchy.read.data.theta0
    for spread in (0.0, 0.3, 0.8):
        theta = theta0 + spread * rng.standard_normal(theta0.size)
        found, expected = hierarchy.density(theta), hierarchy.by_pymc(theta)
        if np.isfinite(expected):
            agree("density of a model in terms of its effects", found, expected, abs(expected), 100 * ROUNDING)


def starts(hierarchy, decider, n):
    """Return draws of the surrogate, made wider, and weights by which they are draws of the model's density."""
    rng, found, e = np.random.default_rng(9), decider.prepared, decider.prepared.steering
    thetas, log_weights = [], []
    for _ in range(n):
        x, z = rng.standard_normal(found.mean.size), rng.standard_normal(decider.model.groups.own.shape)
        phi = found.mean + WIDER * found.factor @ x
        theta = decider.surrogate.theta(phi, WIDER * z, e)
        conditional = decider.surrogate.condition(theta, e)
        used = np.arange(z.shape[1]) < np.asarray(e.size)[:, None]
        log_q = -0.5 * (x @ x + (z[used] ** 2).sum()) - conditional.log_det
        thetas.append(theta)
        log_weights.append(hierarchy.density(theta) - log_q)
    log_weights = np.array(log_weights)
    weights = np.exp(log_weights - log_weights.max())
    return np.array(thetas), np.where(np.isfinite(weights), weights, 0.0)


#: By how much starts are wider than the surrogate, so that few of them have large weights.
WIDER = 1.15


def functions(thetas, groups, densities):
    """Return functions of draws, by name, that a wrong kernel would shift."""
    own, shared = groups.own, thetas[:, groups.shared]
    effects = thetas[:, np.unique(own[own >= 0])]
    named = {f"shared {k}": column for k, column in enumerate(shared.T)}
    named |= {f"shared {k}, squared": (column - column.mean()) ** 2 for k, column in enumerate(shared.T)}
    named |= {"mean of effects": effects.mean(axis=1), "spread of effects": np.log(effects.var(axis=1) + 1e-12)}
    return named | {"log density": densities, "first effect": effects[:, 0], "last effect": effects[:, -1]}


def check_invariant(hierarchy, decider, what, n=1200, data=None):
    """Weighted draws of the density are draws of it after a transition: no mean has changed.

    Returns whether there were enough draws to tell.
    """
    thetas, weights = starts(hierarchy, decider, n)
    if not weights.any() or weights.sum() ** 2 / (weights**2).sum() < LEAST_WORTH:
        return False
    some = weights > 0  # the others have no density, as where 1 − p rounds to zero, and no step stands there
    thetas, weights, n = thetas[some], weights[some], int(some.sum())
    data, state = data_by_reference(data or decider.data()), decider.new_state()  # once, as a chain does
    looks = decider.looks_of_large()
    generators = pack_generators(*np.random.default_rng(10).spawn(3))
    after = np.empty_like(thetas)
    for i, theta in enumerate(thetas):
        state.phi[:] = np.nan
        carried, refresh, _ = decider.move(theta, data, state, looks, generators)
        if carried.status != DECIDED or refresh.status != DECIDED:
            raise Found(f"{what}: a transition ended with status {carried.status} or {refresh.status}")
        after[i] = refresh.theta
    both = np.concatenate([thetas, after])
    densities = np.array([hierarchy.density(theta) for theta in both])
    weights = weights / weights.mean()
    for name, values in functions(both, decider.model.groups, densities).items():
        before, later = values[:n], values[n:]
        change = weights * (later - before)
        mean, error = change.mean(), change.std() / np.sqrt(n)
        centre = np.average(before, weights=weights)
        sd = np.sqrt(np.average((before - centre) ** 2, weights=weights))
        allowed = ALLOWED * sd if decider.reported.error else 0.0
        if abs(mean) > ERRORS * error + allowed + 1e-9:
            raise Found(f"{what}: the mean of {name!r} moves by {mean:.4g} ± {error:.2g} in a transition")
    return True


def check_hierarchy(program, names=()):
    """Check how a hierarchical model is read, and transitions of steps of these names; return what was seen."""
    seen = Counter(hierarchies=1)
    hierarchy, refused = tried("reading groups", lambda: Hierarchy(program.build()))
    if refused:
        seen["refused"] += 1
        seen[f"refused, though it has groups: {str(refused)[:150]}"] += 1
        return seen
    check_read(hierarchy)
    for name in names:
        build = partial(STEPS[name], model=hierarchy.model, rng=7, tune=False, progressbar=False)
        step, refused = tried(f"building {name}", build)
        if refused:
            seen[f"refused, to {name}: {str(refused)[:150]}"] += 1
        elif isinstance(step.decider, GroupDecider):
            told = check_invariant(hierarchy, step.decider, name)
            seen[f"groups of {name}" if told else f"groups of {name}, too many to tell"] += 1
    return seen
