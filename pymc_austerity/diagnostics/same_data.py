"""Whether draws belong to a model and to its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
from pymc.model import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant

from pymc_austerity.diagnostics.results import SamplingResult, group, require_draws
from pymc_austerity.likelihood.model_arrays import arrays_of_model
from pymc_austerity.likelihood.model_graph import array_of
from pymc_austerity.user_input import shown

#: Statistics of a draw, the same for all of a run: numbers of the model and of the data that it belongs to.
MODEL_DIGEST, DATA_DIGEST = "model_digest", "data_digest"


def check_draws_of(model: Model, idata: SamplingResult, blocks: int | None = None) -> None:
    """Refuse draws of another model, or of other data than the model has now, with the arrays that differ.

    `blocks` is the number of the data of a step that was given as ``data=``; None where it is not known.
    """
    held, free = sorted(map(str, group(idata, "posterior").data_vars)), [rv.name for rv in model.free_RVs]
    if held and not set(held) & set(free):
        raise ValueError(
            f"idata: it holds draws of {held[:5]}, and the model has none of these, but {free[:5]}. Pass the model of "
            "the run."
        )
    require_draws(idata)
    found, known_model, known_data = (
        arrays_of_model(model).key,
        *(recorded(idata, d) for d in (MODEL_DIGEST, DATA_DIGEST)),
    )
    if is_elsewhere(known_data) and blocks not in (None, known_data):
        raise ValueError(
            "idata: these draws were made with other rows than those of the step or of data=, which were read in "
            "another order, or have changed. They are of another posterior. Pass the step of the run, or its data=."
        )
    of_another_model = known_model not in (None, found.model) and _version(idata) == pm.__version__
    differ = _unlike(_arrays(idata), _arrays_of(model))
    of_other_data = known_data not in (None, found.data) and not is_elsewhere(known_data)
    if of_other_data and (differ or not of_another_model):  # another model may hold the same data in other arrays
        named = f": {', '.join(differ)}" if differ else ", in arrays that idata does not keep"
        raise ValueError(
            f"idata: these draws were made with other data than the model has now{named}. They are of "
            "another posterior. Pass the run that was made with these data, or set the data back by pm.set_data."
        )
    if of_another_model:
        raise ValueError(
            "idata: these draws were made with another model: its variables, their laws or a constant among their "
            "parameters differ. Pass the model of the run."
        )


def check_step_of(step: Any, model: Model, to_draw: bool = False) -> None:
    """Refuse a step that was built for another model by a ValueError, and a class of steps by a TypeError.

    To judge draws, the same model built again will do; `to_draw`, PyMC asks for the very variables.
    """
    if isinstance(step, type):
        raise TypeError(f"step= wants a step that was built, and got {shown(step)}.")
    own = getattr(step, "vars", ()) or ()
    remedy = "Build the step within 'with model:'."
    known = {value.name for value in model.value_vars}
    if strange := [value.name for value in own if value.name not in known]:
        raise ValueError(f"step= was built for another model: this one has no variable {strange}. {remedy}")
    key = getattr(step, "model_key", None)
    if key is None or all(any(value is there for there in model.value_vars) for value in own):
        return  # a step follows the data of its own model
    found = arrays_of_model(model).key
    if key.model != found.model:
        raise ValueError(
            "step= was built for another model: the variables have the same names, and their laws or a constant "
            f"among their parameters differ. {remedy}"
        )
    if key.data != found.data and not is_elsewhere(key.data):
        raise ValueError(f"step= was built for a model with other data, and reads the rows of that one. {remedy}")
    if to_draw:
        raise ValueError(f"step= was built for another copy of this model, whose variables are not these. {remedy}")


def check_same_data(results: Mapping[str, SamplingResult], reference: str) -> None:
    """Refuse to compare draws of other data, or of another model, with those of a reference run."""
    of_reference = results[reference]
    for run, idata in results.items():
        digests = {recorded(r, DATA_DIGEST) for r in (idata, of_reference)} - {None}
        elsewhere = [is_elsewhere(digest) for digest in digests]
        # Of rows elsewhere the model, and the run, hold an example.
        differ = [] if any(elsewhere) else _unlike(_arrays(idata), _arrays(of_reference))
        if differ or (len(digests) > 1 and len(set(elsewhere)) == 1):
            named = f": {', '.join(differ)}" if differ else ", in arrays that the runs do not keep"
            raise ValueError(
                f"results: the draws of {run!r} were made with other data than those of {reference!r}{named}. They "
                "are of different posteriors, and a difference says nothing of how they were sampled."
            )
        models = {recorded(r, MODEL_DIGEST) for r in (idata, of_reference)} - {None}
        if len(models) > 1 and _version(idata) == _version(of_reference):
            raise ValueError(
                f"results: the draws of {run!r} were made with another model than those of {reference!r}: its "
                "variables, their laws or a constant among their parameters differ."
            )


def is_elsewhere(data: int | None) -> bool:
    """Return whether a number of data is one of rows that are not in the model (``data=``)."""
    return data is not None and bool(data % 2)


def recorded(idata: SamplingResult, name: str) -> int | None:
    """Return the number that all draws of a run hold, or None where they hold none."""
    stats = group(idata, "sample_stats")
    if name not in stats:
        return None
    found = np.unique(stats[name].to_numpy())
    if found.size > 1:
        what = "models" if name == MODEL_DIGEST else "data"
        raise ValueError(f"idata: it holds draws that were made with {found.size} different {what}. Pass one run.")
    return int(found[0]) if found.size else None


def _version(idata: SamplingResult) -> str | None:
    """Return the PyMC that made a run: graphs of another may be written otherwise."""
    version = group(idata, "posterior").attrs.get("inference_library_version")
    return None if version is None else str(version)


def _arrays(idata: SamplingResult) -> dict[str, np.ndarray]:
    """Return the data that a run keeps."""
    groups = (group(idata, name) for name in ("constant_data", "observed_data"))
    return {str(name): array.to_numpy() for data in groups for name, array in data.data_vars.items()}


def _arrays_of(model: Model) -> dict[str, np.ndarray]:
    """Return the data of a model that a run of it would keep."""
    observed = {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs}
    held = {**{v.name: v for v in model.data_vars}, **observed}
    return {name: np.asarray(array_of(v)) for name, v in held.items() if isinstance(v, Constant | SharedVariable)}


def _unlike(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> list[str]:
    """Return what differs between arrays of the same name."""
    differ = []
    for name in first.keys() & second.keys():
        a, b = first[name], second[name]
        if a.shape != b.shape:
            differ.append(f"array {name!r} (shape {a.shape}, here {b.shape})")
        elif not np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f"):
            differ.append(f"array {name!r} ({np.mean(a != b):.0%} of its entries)")
    return sorted(differ)
