"""Models of groups checked by numbers: where, their log density there, and the Jacobian of the map to effects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
from pymc.model import Model

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.interrupts import uninterrupted

Point = Mapping[str, np.ndarray]
PointMap = Callable[[Point], dict[str, np.ndarray]]

#: How far from where sampling starts models are checked, at most, and how many distances are tried.
_FARTHEST, _TRIED = 0.3, 20
#: Random directions in which an isometry is checked, and the rounding of lengths, relative to them.
_DIRECTIONS, _ROUNDING = 3, 1e-9


def farthest(is_finite: Callable[[float], bool]) -> float:
    """Return the largest of .3, .03, ... at which the density is finite, or .3 where it is at none of them.

    Rows with covariates of 1e9 are finite near to the start alone.
    """
    return next(filter(is_finite, (_FARTHEST * 10.0**-k for k in range(_TRIED))), _FARTHEST)


def density_of(model: Model) -> Callable[[Point], float]:
    """Return the log density of a model as a function of a point."""
    values = model.value_vars
    density = interpret_log_density(values, [model.logp()])

    def at(point: Point) -> float:
        with np.errstate(all="ignore"):
            return float(uninterrupted(density, *(np.asarray(point[v.name], v.type.dtype) for v in values))[0])

    return at


def checked_at(model: Model, density: Callable[[Point], float], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return a point at random beside where sampling starts, with a finite density if there is one."""
    start = {name: np.asarray(value) for name, value in model.initial_point().items()}
    away = {name: rng.standard_normal(value.shape) for name, value in start.items() if value.dtype.kind == "f"}

    def at(spread: float) -> dict[str, np.ndarray]:
        return start | {name: start[name] + spread * by for name, by in away.items()}

    return at(farthest(lambda spread: bool(np.isfinite(density(at(spread))))))


def log_jacobian_of(
    to_effects: PointMap, axes: Mapping[str, int | None], zero_sums: Collection[str], point: Point
) -> float:
    """Return log |∂u/∂z| of all variables that a map replaces, from differences: it is affine in them.

    `axes` are those along which the groups of each lie, None where effects of a group read all of it; `zero_sums`
    names those whose effects, one more than they have entries, sum to zero, and count with log |JᵀJ| / 2.
    """
    together: dict[int | str, list[str]] = {}  # those with as many groups: effects may read several of them
    for name, axis in axes.items():
        if name not in zero_sums:
            together.setdefault(name if axis is None else point[name].shape[axis], []).append(name)
    of_groups = sum(_by_group(to_effects, {name: axes[name] for name in names}, point) for names in together.values())
    return of_groups + sum(_of_sums(to_effects, name, point) for name in zero_sums)


def _by_group(to_effects: PointMap, axes: Mapping[str, int | None], point: Point) -> float:
    """Return Σ_g log |∂u_g/∂z_g| of some variables."""
    by_group = [point[n][None] if axis is None else np.moveaxis(point[n], axis, 0) for n, axis in axes.items()]
    n_groups = len(by_group[0])
    flat = np.hstack([z.reshape(n_groups, -1) for z in by_group])
    ends = np.cumsum([z[0].size for z in by_group])

    def effects_at(entries: np.ndarray) -> np.ndarray:
        changed, parts = dict(point), np.split(entries, ends[:-1], axis=1)
        for (name, axis), z, own in zip(axes.items(), by_group, parts, strict=True):
            changed[name] = own.reshape(z.shape)[0] if axis is None else np.moveaxis(own.reshape(z.shape), 0, axis)
        effects = to_effects(changed)
        return np.hstack([np.reshape(effects[name], (n_groups, -1)) for name in axes])

    columns = [effects_at(flat + one) - effects_at(flat) for one in np.eye(flat.shape[1])]
    return float(np.linalg.slogdet(np.stack(columns, axis=-1))[1].sum())


def _of_sums(to_effects: PointMap, name: str, point: Point) -> float:
    """Return log |JᵀJ| / 2 of a map that is a number times an isometry along each row of z, without J; NaN if not."""
    rng, z, origin = np.random.default_rng(2007), np.atleast_2d(point[name]), to_effects(point)[name]

    def stretched(by: np.ndarray) -> float:
        moved = to_effects({**point, name: point[name] + by.reshape(point[name].shape)})[name]
        return float(((moved - origin) ** 2).sum())

    first, *others = rng.standard_normal((1 + _DIRECTIONS, *z.shape))
    rows = np.array([stretched(np.where(np.arange(len(z))[:, None] == k, first, 0.0)) for k in range(len(z))])
    squares = rows / (first**2).sum(axis=1)
    for by in others:
        expected = float(squares @ (by**2).sum(axis=1))
        if not abs(stretched(by) - expected) <= _ROUNDING * expected:
            return np.nan
    return float(z.shape[1] * np.log(squares).sum() / 2)
