"""The papers behind a run, as BibTeX."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np
import xarray as xr
from pymc.step_methods.compound import CompoundStep

from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.kernel.reported import GROUPS
from pymc_austerity.steps.checked_step import CheckedStep
from pymc_austerity.steps.draw_statistics import METHOD
from pymc_austerity.user_input import shown

#: The entries behind each method, by the names of steps and proposals.
_BEHIND = {
    "ApproxMH": ("austerity",),
    "ApproxGibbs": ("austerity",),
    "MHSubLhd": ("adaptive_subsampling", "tall_data"),
    "MinibatchBarker": ("minibatch_barker", "tall_data"),
    "PenaltyMH": ("penalty", "tall_data"),
    "GroupMH": ("penalty", "tall_data"),
    "MHSS": ("scalable_subsampling",),
    "MinibatchMH": ("minibatch_mcmc",),
    "SGLD": ("sgld",),
    "debias": ("partial_posteriors",),
    "AdaptiveMetropolis": ("adaptive_metropolis",),
    "CrankNicolson": ("crank_nicolson",),
    "SurrogateHMC": ("hmc",),
    "Langevin": ("sgld",),
    "ReversibleJump": ("reversible_jump", "austerity"),
    GROUPS: ("slice_sampling", "noncentred"),
}


def citation(run: CheckedStep | CompoundStep | SamplingResult | xr.Dataset) -> str:
    """Return BibTeX entries of the package, of PyMC, and of the methods that a run used.

    Parameters
    ----------
    run : step, InferenceData, DataTree or Dataset
        A step of this package, or what ``pm.sample`` or `debias` returned.

    Returns
    -------
    str
        Entries one below the other.

    Raises
    ------
    TypeError
        For anything else.
    ValueError
        For a run in which no step of this package has drawn.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Bernoulli("y", p, observed=np.arange(1000) % 4 == 0)
    ...     step = pma.PenaltyMH()
    >>> [line for line in pma.citation(step).splitlines() if line.startswith("@")][2]
    '@article{penalty,'
    """
    keys = ["pymc", *(key for name in _methods(run) for key in _BEHIND.get(name, ()))]
    own = (
        "@software{pymc_austerity,\n  title = {pymc-austerity},\n  author = {{The pymc-austerity developers}},\n"
        f"  version = {{{version('pymc-austerity')}}}\n}}"
    )
    entries = {text.split("{")[1].split(",")[0]: text for text in _stored().split("\n\n")}
    return "\n\n".join([own, *(entries[key] for key in dict.fromkeys(keys))])


def _stored() -> str:
    """Return all entries, with an empty line between them."""
    return files("pymc_austerity.steps").joinpath("citations.bib").read_text("utf-8").strip()


def _methods(run: Any) -> list[str]:
    """Return the names of the steps and of the proposals."""
    if isinstance(run, CheckedStep):
        return run.method.split()
    if isinstance(run, CompoundStep):
        return [name for step in run.methods if isinstance(step, CheckedStep) for name in step.method.split()]
    if isinstance(run, xr.Dataset) and "unseen_variance" in run.attrs:
        return ["debias"]
    if not hasattr(run, "groups"):
        raise TypeError(f"citation(run=): wants a step, or what pm.sample or debias returned, and got {shown(run)}.")
    if "sample_stats" not in run or METHOD not in run["sample_stats"]:
        raise ValueError(
            f"citation(run=): its sample_stats have no {METHOD!r}, so that no step of pymc_austerity has drawn it. "
            "Pass the step itself, or a run with all of its sample_stats."
        )
    return [name for text in np.unique(run["sample_stats"][METHOD].to_numpy()) for name in text.decode().split()]
