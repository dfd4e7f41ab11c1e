"""The step that made a run, which `pm.sample` does not return, and the rows that its decisions are judged on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from pymc.model import Model

from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel import Decider
from pymc_austerity.kernel.reported import GROUPS
from pymc_austerity.rows import Rows, Uniform
from pymc_austerity.rows.pool import PooledRows
from pymc_austerity.user_input import shown


def as_population(decider: Decider, at_most: int | None = None) -> Decider:
    """Return the decider for rows that can all be read, to judge decisions by: itself, unless there is a pool.

    The slots of a pool then stand for all rows, or the first `at_most` of them, which are as good a sample. What it
    draws is the same, in another order; not for sampling.
    """
    if decider.row_source.complete:
        return decider
    k = min(len(decider.parts.stored), at_most or len(decider.parts.stored))
    parts = replace(decider.parts, rows=Rows(tuple(a[:k] for a in decider.parts.stored.arrays)))
    return replace(decider, parts=parts, row_source=decider.row_source.population(k))


@dataclass(frozen=True, eq=False)
class SampleInPlaceOfRows(Uniform):
    """A sample of the rows as all rows, each standing for as many."""

    each: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """How many of all rows each row of the sample stands for."""
        return self.each


def sample_of_rows(decider: Decider, k: int, rng: np.random.Generator) -> Decider:
    """Return the decider for a sample of `k` rows that stands for all, as a pool would: drawn as the test draws them.

    A test that reads far fewer than `k` rows decides on the sample as it does on all rows.  Not for sampling.
    """
    source, n = decider.row_source, len(decider.parts.stored)
    if source.weighted:
        numbers = uninterrupted(source.draw, rng, source.state(n), 0, k)
        assert source.weights is not None
        population = PooledRows(source.weights[numbers], n, 1).population(k)
    else:
        numbers, population = rng.choice(n, k, replace=False), SampleInPlaceOfRows(np.full(k, n / k))
    parts = replace(decider.parts, rows=Rows(tuple(a[numbers] for a in decider.parts.stored.arrays)))
    return replace(decider, parts=parts, row_source=population)


@runtime_checkable
class Deciding(Protocol):
    """A step method of this package, as far as an examination needs it."""

    decider: Decider

    def follow_data(self) -> None:
        """Learn anew where the data of the model have changed."""


#: The newest step of each model, and descriptions of all that were built for it.  They live as long as the model.
_BUILT: WeakKeyDictionary[Model, tuple[Deciding | None, tuple[str, ...]]] = WeakKeyDictionary()


def remember(model: Model, step: Deciding) -> None:
    """Note that `step` was built for `model`; what it decides by may change with the data.

    One that moves groups by themselves makes other decisions than those that are examined, and is not noted.
    """
    if step.decider.reported.moves == GROUPS:
        return
    _, described = _built_for(model)
    _BUILT[model] = step, tuple(dict.fromkeys([*described, step.decider.parts.describe()]))


def _built_for(model: Model) -> tuple[Deciding | None, tuple[str, ...]]:
    return _BUILT.get(model, (None, ()))


@contextmanager
def not_remembered(model: Model) -> Iterator[None]:
    """Forget at the end the steps that are built for a model meanwhile."""
    before = _built_for(model)
    try:
        yield
    finally:
        _BUILT[model] = before


def find_decider(model: Model) -> Decider:
    """Return the decider of the one step that was built for a model in this session; refuse to guess among several."""
    step, described = _built_for(model)
    if step is None:
        raise ValueError(
            "step: no step of pymc_austerity was built for this model in this session, so the test of the run is "
            "unknown. Build the step again with the same settings, inside the model's context, and pass it as step=."
        )
    if len(described) > 1:
        raise ValueError(
            f"step: {len(described)} different steps were built for this model, {'; '.join(described)}, and idata does "
            "not say which of them ran. Pass the one that did as step=."
        )
    step.follow_data()
    return as_population(step.decider)


def data_of_step(step: object, model: Model) -> int | None:
    """Return the number of the data of a step, or of the newest of a model for None, where it is known."""
    key = getattr(_built_for(model)[0] if step is None else step, "model_key", None)
    return None if key is None else int(key.data)


def decider_of(step: object, use: str) -> Decider:
    """Return the decider of a step of this package; refuse anything else, with what it was wanted for."""
    if isinstance(step, type) or not isinstance(step, Deciding):
        raise TypeError(f"step= wants a step of pymc_austerity, and got {shown(step)}; {use}.")
    if not isinstance(step.decider, Decider):
        raise TypeError(
            f"step= is a {type(step).__name__} that moves groups by themselves, and {use}. Build it with a proposal=, "
            "for one decision over all parameters."
        )
    step.follow_data()
    return as_population(step.decider)
