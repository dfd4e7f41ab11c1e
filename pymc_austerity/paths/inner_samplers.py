"""Samplers of one partial posterior: nutpie, PyMC's NUTS, or a function of the user.

``prepare(subset_model)`` compiles once and returns ``draw(subset, rng)``, from the arrays of a subset of rows
to posterior draws.  NUTS also takes ``draw(subset, rng, tune, draws)``, for another number of steps.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from pymc_austerity.compat import as_sampling_result
from pymc_austerity.paths.subset_model import SubsetModel
from pymc_austerity.user_input import takes_fields

Subset = Mapping[str, NDArray[Any]]
Draw = Callable[..., Any]


class InnerSampler(Protocol):
    """Anything that can sample every partial posterior of a model after one preparation."""

    def prepare(self, subset_model: SubsetModel) -> Draw:
        """Compile what does not depend on the rows."""


@dataclass(frozen=True)
class _Settings:
    """Settings that every NUTS has."""

    draws: int = 500
    tune: int = 300
    chains: int = 1
    target_accept: float = 0.8

    def __post_init__(self) -> None:
        if min(self.draws, self.chains) < 1 or self.tune < 0 or not 0 < self.target_accept < 1:
            raise ValueError(
                f"{self} needs draws= and chains= of at least 1, tune= from 0 on, and target_accept= in (0, 1)."
            )


@takes_fields
@dataclass(frozen=True)
class NutpieNUTS(_Settings):
    """NUTS by nutpie, on one compiled model that is handed new data.

    Parameters
    ----------
    draws, tune, chains : int
        Draws kept and tuning steps of each chain.  The chains of one partial posterior run one after the
        other: partial posteriors are what runs in parallel.
    target_accept : float
        Acceptance that the step size is tuned to.
    """

    def prepare(self, subset_model: SubsetModel) -> Draw:
        """Compile with nutpie's numba backend."""
        import nutpie
        from numba import NumbaPerformanceWarning

        with warnings.catch_warnings():
            # About the memory layout of products inside the model: nothing a user could act on.
            warnings.simplefilter("ignore", NumbaPerformanceWarning)
            compiled = nutpie.compile_pymc_model(subset_model.model)
        # An array that only dropped variables read is not part of the compiled functions.
        known = {var.name for f in (compiled.logp_func, compiled.expand_func) for var in f.get_shared()}

        def draw(subset: Subset, rng: np.random.Generator, tune: int = self.tune, draws: int = self.draws) -> Any:
            of_subset = compiled.with_data(**{name: array for name, array in subset.items() if name in known})
            seed = int(rng.integers(2**31))
            options = {"target_accept": self.target_accept, "progress_bar": False, "save_warmup": False}
            return nutpie.sample(of_subset, draws=draws, tune=tune, chains=self.chains, cores=1, seed=seed, **options)

        return draw


@takes_fields
@dataclass(frozen=True)
class PyMCNUTS(_Settings):
    """PyMC's own NUTS on one compiled log-density, put back to its first state for every subset.

    Parameters
    ----------
    draws, tune, chains : int
        Draws kept and tuning steps of each chain.
    target_accept : float
        Acceptance that the step size is tuned to.
    """

    def prepare(self, subset_model: SubsetModel) -> Draw:
        """Compile the log-density, its gradient, and the way back from unconstrained draws."""
        model = subset_model.model
        with model:
            step = pm.NUTS(target_accept=self.target_accept)
        untuned = step.sampling_state
        start = model.initial_point()
        names = [var.name for var in model.free_RVs + model.deterministics]
        by_name = {var.name: var for var in model.unobserved_value_vars}
        constrain = model.compile_fn([by_name[name] for name in names], inputs=model.value_vars)
        # The data live in shared variables, and the step holds a state: one partial posterior at a time.
        lock = threading.Lock()

        def chain(rng: np.random.Generator, tune: int, draws: int) -> list[list[NDArray[Any]]]:
            step.sampling_state = untuned
            step.rng = rng
            step.potential.set_rng(rng.spawn(1)[0])
            step.tune = True
            point = {name: value + rng.uniform(-1, 1, np.shape(value)) for name, value in start.items()}
            kept = []
            for iteration in range(tune + draws):
                if iteration == tune:
                    step.stop_tuning()
                point, _ = step.step(point)
                if iteration >= tune:
                    kept.append(constrain(point))
            return kept

        def draw(subset: Subset, rng: np.random.Generator, tune: int = self.tune, draws: int = self.draws) -> Any:
            with lock:
                subset_model.put(subset)
                chains = [chain(generator, tune, draws) for generator in rng.spawn(self.chains)]
            dims = model.named_vars_to_dims
            posterior = {
                name: _labelled(name, np.array([[values[i] for values in kept] for kept in chains]), dims, model)
                for i, name in enumerate(names)
            }
            return as_sampling_result({"posterior": xr.Dataset(posterior)})

        return draw


@dataclass(frozen=True)
class CustomSampler:
    """A ``function(model, rng)`` of the user, called on the model with the rows of the subset in it; returns draws."""

    function: Callable[[pm.Model, np.random.Generator], Any]

    def prepare(self, subset_model: SubsetModel) -> Draw:
        """Prepare nothing: what the function compiles is its own affair."""
        lock = threading.Lock()

        def draw(subset: Subset, rng: np.random.Generator) -> Any:
            with lock:
                subset_model.put(subset)
                return self.function(subset_model.model, rng)

        return draw


def _labelled(name: str, values: NDArray[Any], dims: Mapping[str, Any], model: pm.Model) -> xr.DataArray:
    inner = dims.get(name) or [f"{name}_dim_{i}" for i in range(values.ndim - 2)]
    coords = {dim: list(model.coords[dim]) for dim in inner if model.coords.get(dim) is not None}
    return xr.DataArray(values, dims=("chain", "draw", *inner), coords=coords)
