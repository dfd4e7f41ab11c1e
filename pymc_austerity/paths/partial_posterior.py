"""Unbiased posterior expectations of a PyMC model from posteriors of small subsets of its rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from pymc.model import Model

from pymc_austerity.paths.debias import debias
from pymc_austerity.paths.inner_samplers import CustomSampler, Draw, InnerSampler, NutpieNUTS, PyMCNUTS
from pymc_austerity.paths.subset_model import subset_model
from pymc_austerity.user_input import model_of, takes


class PartialPosteriorPaths:
    """φ(rows) = E[expectation | those rows], by MCMC on the partial posterior.

    Parameters
    ----------
    model : pymc.Model
        Model on the whole data.  Its data arrays (``pm.Data`` or plain) must share a row axis; the likelihood need not
        factorise over the rows.  The rows must be exchangeable: subsets of a time series are not a shorter series.
    expectation : str, sequence of str, or callable
        What is estimated.  A name: the posterior mean of that variable.  Several names: their posterior
        means, as one axis ``quantity``.  A function of the draws (InferenceData in ArviZ 0.x, DataTree in
        1.x, with a ``posterior`` group) that returns an array or a DataArray of fixed shape.
    sampler : InnerSampler or callable, optional
        `NutpieNUTS` or `PyMCNUTS` with settings of your own, or ``function(model, rng)`` that returns
        draws.  By default nutpie where it is installed, otherwise PyMC's NUTS.
    n_rows : int, optional
        Length of the row axis; by default that of the observed variables.
    row_axes : mapping of str to int or sequence of int, optional
        Row axes of named data where they are not just the first, as for a row by row distance matrix.

    Attributes
    ----------
    n_rows : int
        Number of rows N.
    row_arrays : tuple of str
        What is subset together.

    Raises
    ------
    ValueError
        When the row axis is not clear, a parameter belongs to a single row, or `expectation` names
        something the partial posteriors do not have.
    TypeError
        For an `expectation` or a `sampler` of the wrong kind.

    Notes
    -----
    An object is itself a φ for `debias`.  It compiles once in every process that uses it, at the first
    call.  Unbiased up to the bias of finite chains, as any MCMC estimate: the paper's section 3.2.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> x = np.random.default_rng(1).normal(2, 1, 20_000)
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu", 0, 10)
    ...     y = pm.Normal("y", mu, 1, observed=x)
    >>> paths = PartialPosteriorPaths(model, "mu")
    >>> result = paths.debias(min_batch=50, replications=30, random_seed=1, progressbar=False)
    >>> bool(abs(result.estimate[-1] - x.mean()) < 4 * result.standard_error[-1])
    True
    """

    @takes()
    def __init__(
        self,
        model: Model,
        expectation: str | Sequence[str] | Callable[[Any], ArrayLike | xr.DataArray],
        sampler: InnerSampler | Callable[[Model, np.random.Generator], Any] | None = None,
        *,
        n_rows: int | None = None,
        row_axes: Mapping[str, int | Sequence[int]] | None = None,
    ):
        self._subsets = subset_model(model_of(model, "PartialPosteriorPaths"), n_rows, row_axes)
        self._expectation = _checked_expectation(expectation, self._subsets.model, self._subsets.dropped)
        self._sampler = _checked_sampler(sampler)
        self._draw: Draw | None = None
        self.n_rows = self._subsets.n_rows
        self.row_arrays = tuple(array.label for array in self._subsets.arrays)

    def __call__(self, row_numbers: NDArray[np.int64], rng: np.random.Generator) -> ArrayLike | xr.DataArray:
        """Return the posterior expectation given these rows alone, of shape (n,), drawn by `rng`."""
        return self._summarise(self._compiled()(self._subsets.take(row_numbers), rng))

    def compile(self) -> None:
        """Compile now rather than at the first call."""
        self._draw = self._sampler.prepare(self._subsets)

    def _compiled(self) -> Draw:
        if self._draw is None:
            self.compile()
        return cast("Draw", self._draw)

    def _summarise(self, draws: Any) -> ArrayLike | xr.DataArray:
        if callable(self._expectation):
            return self._expectation(draws)
        return posterior_means(draws.posterior, self._expectation)

    def debias(self, **settings: Any) -> xr.Dataset:
        """Estimate the expectation under the posterior of all rows.

        Parameters
        ----------
        **settings
            Arguments of `debias` after `n_rows`: ``min_batch`` and the others.

        Returns
        -------
        xarray.Dataset
            As from `debias`.
        """
        return debias(self, self.n_rows, **settings)

    def overhead(self, n_rows: int, repeats: int = 5) -> float:
        """Measure what one partial posterior costs apart from its MCMC steps.

        Parameters
        ----------
        n_rows : int
            Rows of the subset.
        repeats : int
            Number of measurements; the median is returned.

        Returns
        -------
        float
            Seconds for a call with a single tuning step and two draws, once compiled.
        """
        if isinstance(self._sampler, CustomSampler):
            raise TypeError("The overhead of a sampler of your own cannot be told from its steps; time a call.")
        draw = self._compiled()
        rows = np.arange(n_rows)
        seconds = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two draws are too few for any diagnostic
            for seed in range(repeats):
                begun = time.perf_counter()
                self._summarise(draw(self._subsets.take(rows), np.random.default_rng(seed), 1, 2))
                seconds.append(time.perf_counter() - begun)
        return float(np.median(seconds))

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions do not travel; every process compiles its own.
        return self.__dict__ | {"_draw": None}


def posterior_means(posterior: xr.Dataset, names: str | tuple[str, ...]) -> xr.DataArray:
    """Return posterior means: of one variable in its own shape, of several along ``quantity``."""
    if isinstance(names, str):
        return posterior[names].mean(("chain", "draw")).rename(None)
    labels: list[str] = []
    values: list[float] = []
    for name in names:
        mean = posterior[name].mean(("chain", "draw"))
        for index in np.ndindex(mean.shape):
            where = [str(mean[dim].values[i]) for dim, i in zip(mean.dims, index)]
            labels.append(f"{name}[{', '.join(where)}]" if where else name)
            values.append(float(mean.values[index]))
    return xr.DataArray(values, dims="quantity", coords={"quantity": labels})


def _checked_expectation(
    expectation: Any, model: Model, dropped: tuple[str, ...]
) -> str | tuple[str, ...] | Callable[[Any], Any]:
    if callable(expectation):
        return expectation
    if not isinstance(expectation, str | Sequence) or not len(expectation):
        raise TypeError(
            f"expectation must be a variable's name, a sequence of names or a function of the draws, found "
            f"{expectation!r}."
        )
    names = [expectation] if isinstance(expectation, str) else list(expectation)
    if per_row := [name for name in names if name in dropped]:
        raise ValueError(
            f"expectation names {per_row}, with one value per row: a subset has other rows. Use a function of the "
            "draws that predicts at fixed points."
        )
    known = [var.name for var in model.free_RVs + model.deterministics]
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"expectation names {unknown}, which the model does not have. Known are {known}.")
    return expectation if isinstance(expectation, str) else tuple(names)


def _checked_sampler(sampler: Any) -> InnerSampler:
    if sampler is None:
        return NutpieNUTS() if find_spec("nutpie") else PyMCNUTS()
    if hasattr(sampler, "prepare"):
        return sampler
    if callable(sampler):
        return CustomSampler(sampler)
    raise TypeError(f"sampler must be NutpieNUTS(...), PyMCNUTS(...) or a function of (model, rng), found {sampler!r}.")
