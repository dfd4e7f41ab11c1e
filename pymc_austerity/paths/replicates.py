"""What a run of replications leaves behind: an xarray Dataset that can be saved, loaded and continued."""

from __future__ import annotations

import json
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.random import SeedSequence
from numpy.typing import NDArray

from pymc_austerity.paths.convergence_rate import MAX_BETA, MIN_BETA, Choice, squared_errors
from pymc_austerity.paths.truncation import FloatArray, Truncation, path_sizes

#: Share of the variance that may be missing from a standard error.
_MOST = 0.5


@dataclass(frozen=True)
class Replicate:
    """One replication: T, the rows passed to φ, wall time, and Σ_t (φ_t − φ_{t−1}) / P(T ≥ t) of the shape of φ."""

    level: int
    rows: int
    seconds: float
    value: NDArray[np.float64] | xr.DataArray


@dataclass(frozen=True)
class Settings:
    """What has to stay the same for two runs to belong together."""

    n_rows: int
    min_batch: int
    ratio: float
    sizes: tuple[int, ...]
    choice: Choice
    seed: SeedSequence

    @cached_property
    def truncation(self) -> Truncation:
        """The law of T."""
        return Truncation(self.sizes, self.choice.alpha, self.ratio)

    def attrs(self) -> dict[str, Any]:
        """Return the settings as attributes that netCDF and Zarr can hold."""
        return {
            "n_rows": self.n_rows,
            "min_batch": self.min_batch,
            "ratio": float(self.ratio),
            "alpha": self.choice.alpha,
            "alpha_reason": self.choice.reason,
            "beta": self.choice.beta,
            "beta_error": self.choice.beta_error,
            "pilot_rows": self.choice.rows,
            "expected_rows": self.truncation.expected_cost(),
            # As text: 128 bits fit no integer of a file format.
            "seed": json.dumps([_plain(self.seed.entropy), list(self.seed.spawn_key)]),
        }

    def require_match(self, n_rows: int, min_batch: int, ratio: float, alpha: float | Literal["auto"]) -> None:
        """Refuse to continue a run with other settings."""
        had = {"n_rows": self.n_rows, "min_batch": self.min_batch, "ratio": self.ratio, "alpha": self.choice.alpha}
        asked = {"n_rows": n_rows, "min_batch": min_batch, "ratio": ratio}
        asked |= {} if alpha == "auto" else {"alpha": alpha}
        changed = [f"{name}: {had[name]} there, {value} here" for name, value in asked.items() if had[name] != value]
        if changed:
            raise ValueError(
                f"append= holds a run with other settings ({'; '.join(changed)}). Replications with "
                "different settings do not average to one unbiased estimate. Use the same, or start anew."
            )

    def require_seed(self, seed: SeedSequence) -> None:
        """Refuse a second seed for the same run."""
        if (_plain(seed.entropy), seed.spawn_key) != (_plain(self.seed.entropy), self.seed.spawn_key):
            raise ValueError(
                "random_seed differs from the seed of the run in append=, whose later replications are fixed "
                "by its own. Leave random_seed out."
            )


def _plain(entropy: Any) -> Any:
    return entropy if entropy is None or isinstance(entropy, int) else [int(word) for word in entropy]


def settings_of(result: xr.Dataset) -> Settings:
    """Read the settings of a run back from its result."""
    attrs = result.attrs
    missing = {"n_rows", "min_batch", "ratio", "alpha", "seed"} - set(attrs)
    if missing or "replicate" not in result:
        raise ValueError(
            f"append= is not the result of a run: {sorted(missing) or ['replicate']} not found in it. "
            "Pass the Dataset that was returned, with its attributes."
        )
    if "n_max" in attrs:
        raise ValueError(
            "append= holds a run of debias_stream, whose rows are not those of this run. Start anew, without append."
        )
    n_rows, min_batch, ratio = int(attrs["n_rows"]), int(attrs["min_batch"]), float(attrs["ratio"])
    entropy, spawn_key = json.loads(attrs["seed"])
    alpha, beta, error = (float(attrs[name]) for name in ("alpha", "beta", "beta_error"))
    choice = Choice(alpha, beta, error, str(attrs["alpha_reason"]), int(attrs["pilot_rows"]))
    seed = SeedSequence(entropy, spawn_key=tuple(spawn_key))
    return Settings(n_rows, min_batch, ratio, path_sizes(n_rows, min_batch, ratio), choice, seed)


def finished_replicates(result: xr.Dataset) -> dict[int, Replicate]:
    """Read the replications of a run back from its result."""
    result = result.load()
    labelled = not any(str(dim).startswith("phi_dim_") for dim in result.replicate.dims) and result.replicate.ndim > 1
    values = result.replicate.drop_vars("replication") if labelled else result.replicate.values
    columns = zip(result.replication.values, result.level.values, result.rows_touched.values, result.seconds.values)
    return {
        int(index): Replicate(int(level), int(rows), float(seconds), values[position])
        for position, (index, level, rows, seconds) in enumerate(columns)
    }


def running_moments(values: NDArray[np.float64]) -> tuple[FloatArray, FloatArray]:
    """Return the running mean and its standard error along the first axis (NaN for the first entry)."""
    count = np.arange(1, len(values) + 1, dtype=float).reshape(-1, *[1] * (values.ndim - 1))
    # Sums about the overall mean do not cancel where the mean is large against the spread.
    centre = values.mean(axis=0)
    shifted = values - centre
    sums = shifted.cumsum(axis=0)
    squares = (shifted**2).cumsum(axis=0) - sums**2 / count
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(np.maximum(squares, 0) / (count - 1) / count)
    error[0] = np.nan
    return centre + sums / count, error


def result_dataset(done: Mapping[int, Replicate], settings: Settings, stopped: str) -> xr.Dataset:
    """Put replications, in their order, into a Dataset."""
    order = sorted(done)
    replicates = [done[i] for i in order]
    values = np.stack([np.asarray(r.value) for r in replicates])
    first = replicates[0].value
    inner: tuple[Hashable, ...] = tuple(f"phi_dim_{i}" for i in range(values.ndim - 1))
    coords: dict[Hashable, Any] = {}
    if isinstance(first, xr.DataArray):
        inner = first.dims
        coords = {name: c.variable for name, c in first.coords.items()}
    estimate, error = running_moments(values)
    along = ("replication",)
    levels = np.array([r.level for r in replicates])
    return xr.Dataset(
        {
            "replicate": ((*along, *inner), values),
            "level": (along, levels),
            "rows_touched": (along, np.array([r.rows for r in replicates], dtype=np.int64), {"units": "rows"}),
            "seconds": (along, np.array([r.seconds for r in replicates]), {"units": "s"}),
            "estimate": ((*along, *inner), estimate),
            "standard_error": ((*along, *inner), error),
            "batch_size": ("batch", np.array(settings.sizes), {"units": "rows"}),
            "tail_probability": ("batch", settings.truncation.tail),
        },
        coords={**coords, "replication": order, "batch": np.arange(1, len(settings.sizes) + 1)},
        attrs={
            **settings.attrs(),
            "stopped": stopped,
            "unseen_variance": unseen_variance(settings.truncation, settings.choice, int(levels.max())),
            "doubts": doubts(settings.truncation, settings.choice, int(levels.max()), len(levels)),
        },
    )


def unseen_variance(law: Truncation, choice: Choice, deepest: int) -> float:
    """Share of the variance that comes from truncations deeper than `deepest`.

    A standard error cannot know about jumps that have not occurred yet; where α is near β every batch size
    adds about as much variance as the one before, however rare it is.
    """
    errors = squared_errors(law.sizes, float(np.clip(_rate(choice), MIN_BETA, MAX_BETA)))
    by_level = law.variance_by_level(errors)
    return float(by_level[deepest - 1 :].sum() / by_level.sum()) if by_level.sum() > 0 else 0.0


def doubts(law: Truncation, choice: Choice, deepest: int, count: int) -> str:
    """Return sentences on why the standard error of a run may be too small; none where there is no reason.

    `deepest` is the largest truncation that occurred in `count` replications.
    """
    unseen, beta, found = unseen_variance(law, choice, deepest), _rate(choice), []
    if unseen > _MOST:
        found.append(
            f"{unseen:.0%} of the variance comes from batches of more than {law.sizes[deepest - 1]:,} rows, which none "
            f"of {count} replications reached, if β = {beta:.2g}. The standard error does not hold it, and intervals "
            "cover too rarely. Choose a smaller alpha, or more replications."
        )
    if choice.beta <= choice.beta_error:
        found.append(
            f"The fitted convergence rate is not clearly positive (β = {choice.beta:.2f} ± {choice.beta_error:.2f}): "
            "on the pilot paths φ does not come closer to its value on all rows as batches grow, and its variance may "
            "not exist. Draw more inside φ, raise min_batch, or read all rows."
        )
    elif law.alpha >= beta and unseen > 0:
        found.append(
            f"alpha = {law.alpha:.3g} is not below the convergence rate β = {beta:.2g} "
            f"({'fitted' if np.isfinite(choice.beta) else 'the largest of random subsets'}), so that the variance of a "
            "replication grows without bound with the rows. Choose a smaller alpha."
        )
    return " ".join(found)


def warn(sentences: str) -> None:
    """Warn of the doubts about a result, if there are any."""
    if sentences:
        warnings.warn(f"The standard error may say too little. {sentences}", UserWarning, stacklevel=3)


def _rate(choice: Choice) -> float:
    """Return β as fitted, or the largest that it can be."""
    return min(choice.beta, MAX_BETA) if np.isfinite(choice.beta) else MAX_BETA
