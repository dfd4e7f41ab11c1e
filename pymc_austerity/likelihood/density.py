"""The compiled log density of a model, in the parts that a decision needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import pytensor
from numba import types
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_austerity.compile.addresses import Addresses, tuple_of
from pymc_austerity.compile.by_address import Reached
from pymc_austerity.compile.graph_compiler import compile_part, interpret_log_density
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood.linked_functions import (
    ONE_VECTOR,
    PAIR,
    VECTOR,
    BothSides,
    LinkedBothSides,
    LinkedLogPrior,
    LinkedOneSide,
    Links,
    LogPrior,
    OneSide,
    both_sides_at,
    log_prior_at,
    one_side_at,
    reach_both_sides,
    reach_log_prior,
    reach_one_side,
    reach_reading,
)
from pymc_austerity.likelihood.row_likelihood import RowLikelihood
from pymc_austerity.user_input import check_names, shown


class Surroundings(NamedTuple):
    """Everything but θ that the log density of a model depends on."""

    others: np.ndarray  # present values of the variables of other steps, shape (O,)
    fixed: Addresses  # of shared variables that are not indexed by row
    arrays: Addresses  # of the data, rows on the first axis
    temperature: float  # what every row's log-likelihood is divided by
    expansion: Any  # the proxy, where there is one
    links: Links = Links()  # where the model's own functions lie


class Place(NamedTuple):
    """A proposal, and the data that its rows are evaluated with."""

    links: Links  # where the model's own functions lie
    theta_new: np.ndarray
    theta: np.ndarray
    others: np.ndarray
    centre: np.ndarray  # of the expansion; any vector, which nobody reads, without one
    fixed: Addresses  # of data that are not indexed by row
    arrays: Addresses  # of the rows


#: ``known_sum(theta, others, expansion)``: the part of a sum over all rows that needs none of them, that of their
#: expansions; 0 without a proxy.
KnownSum = Callable[..., float]


@njit
def nothing_known(theta: np.ndarray, others: np.ndarray, expansion: tuple[()]) -> float:
    """Return 0: without a proxy nothing is known of the sum over all rows."""
    return 0.0


@dataclass(frozen=True)
class Density:
    """The compiled log density of a model."""

    log_prior: LogPrior
    #: With a proxy, ``both_sides(theta_new, theta, others, centre, *fixed, *batch)`` returns the remainders.
    both_sides: BothSides
    known_sum: KnownSum = nothing_known
    one_side: OneSide | None = None  # the rows at one point, for a test that remembers the other end of a move

    @property
    def expands(self) -> bool:
        """Whether the rows are remainders, for which the centre of the expansion comes first among the fixed data."""
        return self.known_sum is not nothing_known

    def linked(self, likelihood: RowLikelihood) -> LinkedDensity:
        """Return the density for code that is compiled once for all models."""
        fixed, batch = tuple_of(likelihood.fixed), tuple_of(likelihood.batches)
        reached = {"log_prior": reach_log_prior(self.log_prior, fixed)}
        if self.one_side is not None:
            reached["one_side"] = reach_one_side(self.one_side, fixed, batch)
            reached["one_side_reading"] = reach_reading(ONE_VECTOR, 2, fixed, batch, False)
            return LinkedDensity(one_side=one_side_at, reached=reached)
        inputs = types.Tuple((VECTOR, *fixed.types)) if self.expands else fixed
        reached["both_sides"] = reach_both_sides(self.both_sides, inputs, batch)
        reached["reading"] = reach_reading(PAIR, 3, fixed, batch, self.expands)
        return LinkedDensity(known_sum=self.known_sum, reached=reached)


@dataclass(frozen=True)
class LinkedDensity:
    """A `Density` as compiled code asks for it: by the addresses of its functions, among the data."""

    log_prior: LinkedLogPrior = log_prior_at
    both_sides: LinkedBothSides = both_sides_at
    known_sum: KnownSum = nothing_known
    one_side: LinkedOneSide | None = None  # the rows at one point, in place of both sides
    reached: Mapping[str, Reached] = field(default_factory=dict, hash=False)  # by their names in `Links`

    @property
    def expands(self) -> bool:
        """Whether the rows are remainders."""
        return self.known_sum is not nothing_known

    @property
    def links(self) -> Links:
        """The addresses."""
        return Links(**{name: reached.address for name, reached in self.reached.items()})


def numba_options(compile_kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of ``pymc.compile`` for functions that compiled code calls; another mode is refused."""
    if compile_kwargs is not None and not isinstance(compile_kwargs, Mapping):
        raise TypeError(
            f"compile_kwargs= wants a dict of arguments of pytensor.function, and got {shown(compile_kwargs)}."
        )
    check_names("compile_kwargs=", compile_kwargs or {}, list(signature(pytensor.function).parameters))
    kwargs = {"mode": "NUMBA", **(compile_kwargs or {})}
    if "NUMBA" not in str(kwargs["mode"]).upper():
        raise ValueError(
            f"compile_kwargs={{'mode': {kwargs['mode']!r}}}: the transition is compiled by numba and can only call "
            "functions of PyTensor's NUMBA mode. Leave the mode out."
        )
    return kwargs


def compile_density(likelihood: RowLikelihood, compile_kwargs: dict[str, Any] | None = None) -> Density:
    """Compile the graphs of a `RowLikelihood` to functions that other compiled code can call."""
    return Density(compile_log_prior(likelihood, compile_kwargs), compile_rows(likelihood, compile_kwargs))


def compile_log_prior(likelihood: RowLikelihood, compile_kwargs: dict[str, Any] | None = None) -> LogPrior:
    """Compile ``log_prior(theta, others, *fixed)``, as `compile_density` does."""
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed]
    return compile_part(inputs, [likelihood.log_prior], **numba_options(compile_kwargs))


def compile_rows(likelihood: RowLikelihood, compile_kwargs: dict[str, Any] | None = None) -> BothSides:
    """Compile ``both_sides(theta_new, theta, others, *fixed, *batch)``, as `compile_density` does."""
    return compile_part(*_both_sides(likelihood), **numba_options(compile_kwargs))


def compile_one_side(
    likelihood: RowLikelihood, log_prior: LogPrior, compile_kwargs: dict[str, Any] | None = None
) -> Density:
    """Compile the rows at one point; Python finds both sides by calling them twice."""
    inputs = [likelihood.theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
    rows = compile_part(inputs, [likelihood.row_log_likelihood], **numba_options(compile_kwargs))

    def both_sides(theta_new: Any, theta: Any, others: Any, *data: Any) -> tuple[np.ndarray, np.ndarray]:
        return rows(theta_new, others, *data)[0], rows(theta, others, *data)[0]

    return Density(log_prior, both_sides, one_side=rows)


def interpret_rows(likelihood: RowLikelihood) -> BothSides:
    """Make the same for a few evaluations from Python, without compiling it."""
    return interpret_log_density(*_both_sides(likelihood))


def _both_sides(likelihood: RowLikelihood) -> tuple[list[Variable], list[Variable]]:
    theta_new = likelihood.theta.type("theta_new")
    rows = likelihood.row_log_likelihood
    (rows_new,) = graph_replace([rows], {likelihood.theta: theta_new}, strict=False)
    inputs = [theta_new, likelihood.theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
    return inputs, [rows_new, rows]
