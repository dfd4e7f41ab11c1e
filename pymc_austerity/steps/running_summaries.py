"""A trace that keeps summaries of large variables, brought up to date with every draw, in place of the draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from pymc.backends.ndarray import NDArray
from pymc.model import Model

from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.diagnostics.results import named_arrays, quantile_name
from pymc_austerity.steps.running_moments import ChainMoments, summarised
from pymc_austerity.user_input import model_of, takes

#: Draws of all chains together that quantiles are found from by default, and entries of which they are found at once.
_KEPT, _AT_ONCE = 80, 10_000
#: Entries above which a variable is summarised by default.
_LARGE = 1_000


class RunningSummaries(NDArray):
    """Keeps summaries of large variables in place of their draws; given to ``pm.sample(trace=)``.

    Parameters
    ----------
    summarise : sequence of str, optional
        Names of the variables of which no draws are kept, deterministic ones too; by default all with more than 1,000
        entries.
    thin : int, optional
        Keeps every so many draws of these after tuning, in single precision.  By default none are kept, and with
        `quantiles` as many as make up 80 of all chains.
    quantiles : sequence of float, default ()
        Quantiles of these that are estimated, of all chains together, from the draws that are kept.
    model : pymc.Model, optional
        The model; that of the context by default.

    Raises
    ------
    TypeError, ValueError
        For names that are no variables of the model, and quantiles that do not lie between 0 and 1.

    Notes
    -----
    Draws of all other variables, and all statistics of draws, are kept as usual.  Draws of tuning are in no summary.

    Means and standard deviations are exact.  R-hat compares the halves of the chains (without ranks).  Effective draws
    are those of means of batches, of about √n draws: within some 20 % at a thousand draws a chain, on average over
    entries.  The rank of a quantile q is right to √(q(1 − q)/80), some .03 for that of 5 % and .06 for the median,
    and better with a smaller `thin`.

    Memory is 56 bytes an entry and chain, and 4 an entry for each draw that is kept.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> g = np.arange(20_000) % 2_000
    >>> with pm.Model():
    ...     u = pm.Normal("u", pm.Normal("mu"), 1, shape=2_000)
    ...     y = pm.Normal("y", u[g], 1, observed=np.random.default_rng(0).normal(size=20_000))
    ...     summaries = pma.RunningSummaries()
    ...     idata = pm.sample(
    ...         200, tune=200, trace=summaries, step=pma.PenaltyMH(), chains=2, cores=1, random_seed=1,
    ...         progressbar=False, compute_convergence_checks=False,
    ...     )
    >>> list(idata.posterior.data_vars), dict(summaries.summaries()["u"].sizes)
    (['mu'], {'summary': 5, 'u_dim_0': 2000})
    """

    vars: list[Any]
    varnames: list[str]
    var_shapes: dict[str, tuple[int, ...]]
    var_dtypes: dict[str, Any]

    @takes()
    def __init__(
        self,
        summarise: Sequence[str] | None = None,
        *,
        thin: int | None = None,
        quantiles: Sequence[float] = (),
        model: Model | None = None,
    ):
        model = model_of(model, "RunningSummaries")
        super().__init__(model=model)
        self._all_names, self._all_shapes = list(self.varnames), dict(self.var_shapes)
        large = [name for name, shape in self._all_shapes.items() if np.prod(shape) > _LARGE]
        if wrong := [name for name in summarise or () if name not in self._all_names]:
            raise ValueError(f"RunningSummaries: {wrong} are no variables of the model. It has {self._all_names}.")
        self._summarised = large if summarise is None else list(summarise)
        if thin is not None and thin < 1:
            raise ValueError(f"RunningSummaries(thin={thin}) must be 1 or more, or None for no draws.")
        if any(not 0 < q < 1 for q in quantiles):
            raise ValueError(f"RunningSummaries(quantiles={tuple(quantiles)!r}) must lie between 0 and 1.")
        self._thin, self._quantiles = thin, tuple(quantiles)
        # What PyMC stores and asks for.
        gone = set(self._summarised)
        self.vars = [var for var in self.vars if var.name not in gone]
        self.varnames = [var.name for var in self.vars]
        self.var_shapes = {name: shape for name, shape in self.var_shapes.items() if name not in gone}
        self.var_dtypes = {name: dtype for name, dtype in self.var_dtypes.items() if name not in gone}
        # Of the copies of this object that PyMC makes, one a chain.
        self._chains: dict[int, dict[str, ChainMoments]] = {}
        self._kept: dict[int, dict[str, list[np.ndarray]]] = {}
        self._set_up: set[int] = set()

    def setup(self, draws: int, chain: int, sampler_vars: Any = None) -> None:
        """Prepare for a chain, and forget the run before at the first."""
        self.samples: dict[str, np.ndarray] = {}  # which a shallow copy shares with the others
        self._stats = None
        super().setup(draws, chain, sampler_vars)
        self._n_warmup = 0
        if chain == 0:
            for of in (self._chains, self._kept, self._set_up):
                of.clear()
        self._set_up.add(chain)  # PyMC prepares for all chains before it draws

    def record(self, point: Mapping[str, np.ndarray], sampler_stats: Any = None, *, in_warmup: bool) -> None:
        """Take up a draw."""
        values = dict(zip(self._all_names, self.fn(*point.values()), strict=True))
        for name in self.varnames:
            self.samples[name][self.draw_idx] = values[name]
        columns: list[dict[str, np.ndarray]] = self._stats or []
        for of_step, stats in zip(columns, sampler_stats or [], strict=True):
            for key, value in stats.items():
                of_step[key][self.draw_idx] = value
        self.draw_idx += 1
        if in_warmup:
            self._n_warmup += 1
        else:
            for name in self._summarised:
                self._take_up(name, np.asarray(values[name], dtype=float))

    def __len__(self) -> int:
        return int(self.draw_idx)  # also where no draws of any variable are kept

    def _take_up(self, name: str, value: np.ndarray) -> None:
        moments = self._chains.setdefault(self.chain, {})
        if name not in moments:
            n = self.draws - self._n_warmup
            moments[name] = ChainMoments(value.shape, max(1, round(n**0.5)), max(2, n // 2))
        moments[name].add(value)
        thin = self._thin
        if thin is None and self._quantiles:
            thin = -(-(self.draws - self._n_warmup) * len(self._set_up) // _KEPT)
        if thin is not None and (moments[name].n - 1) % thin == 0:
            self._kept.setdefault(self.chain, {}).setdefault(name, []).append(value.astype(np.float32))

    def _slice(self, idx: slice) -> NDArray:
        plain = NDArray(
            model=self.model, vars=self.vars, fn=self.fn, var_shapes=self.var_shapes, var_dtypes=self.var_dtypes
        )
        for name in ("chain", "samples", "sampler_vars", "draws", "draw_idx", "_stats"):
            setattr(plain, name, getattr(self, name))
        return plain[idx]

    def summaries(self) -> xr.Dataset:
        """Return the summaries of the draws so far, while chains run or afterwards.

        Returns
        -------
        xarray.Dataset
            With a variable for each that is summarised, whose first dimension ``summary`` is ``mean``, ``sd``,
            ``mcse_mean``, ``ess``, ``r_hat``, and the quantiles as ``q0.05``.

        Raises
        ------
        ValueError
            Before the first draw after tuning.
        """
        if not self._chains:
            raise ValueError("RunningSummaries: there are no draws after tuning yet. Give it to pm.sample(trace=).")
        found, labels = {}, list[str]()
        for name in self._summarised:
            of = summarised([chain[name] for chain in self._chains.values() if name in chain])
            of |= dict(zip(map(quantile_name, self._quantiles), self._quantiles_of(name), strict=True))
            found[name], labels = np.array(list(of.values())), list(of)
        return named_arrays(self.model, found, {"summary": labels})

    def _quantiles_of(self, name: str) -> np.ndarray:
        kept = [np.ravel(draw) for of_chain in list(self._kept.values()) for draw in of_chain.get(name, [])]
        found = np.empty((len(self._quantiles), int(np.prod(self._all_shapes[name]))))
        for start in range(0, found.shape[1] if self._quantiles else 0, _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            found[:, some] = np.quantile([draw[some] for draw in kept], self._quantiles, axis=0)
        return found.reshape(-1, *self._all_shapes[name])

    def thinned(self) -> xr.Dataset:
        """Return the draws that were kept, by chain and draw; chains that stopped early end in NaN."""
        found, n = {}, max((len(draws) for of in self._kept.values() for draws in of.values()), default=0)
        for name in self._summarised if self._kept else ():
            found[name] = np.full((len(self._kept), n, *self._all_shapes[name]), np.nan, np.float32)
            for k, chain in enumerate(sorted(self._kept)):
                for draw, value in enumerate(self._kept[chain].get(name, [])):
                    found[name][k, draw] = value
        return named_arrays(self.model, found, {"chain": sorted(self._kept), "draw": range(n)})

    def saved_with(self, idata: SamplingResult) -> SamplingResult:
        """Return the run with the summaries, and the draws that were kept, as groups of its own.

        Parameters
        ----------
        idata : InferenceData or DataTree
            What ``pm.sample`` returned; it is changed.
        """
        groups = {"summaries": self.summaries(), **({"thinned": self.thinned()} if self._thin else {})}
        for name, of in groups.items():
            if isinstance(idata, xr.DataTree):
                idata[name] = xr.DataTree(of)
            else:
                idata.add_groups({name: of}, warn_on_custom_groups=False)
        return idata
