"""The Jacobian of the map from the variables of a model to the effects that rows read, by numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

Point = Mapping[str, np.ndarray]
PointMap = Callable[[Point], dict[str, np.ndarray]]

#: Random directions in which an isometry is checked, and the rounding of lengths, relative to them.
_DIRECTIONS, _ROUNDING = 3, 1e-9


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
    """Return log |JᵀJ| / 2 of a map that is a number times an isometry along each row of z; NaN if it is not.

    A matrix with a row and a column for each group would not fit into memory.
    """
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
