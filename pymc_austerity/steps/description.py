"""A step in words, as ``repr`` shows it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from pymc.util import get_untransformed_name, is_transformed_name
from pytensor.graph.basic import Variable

#: Columns of a terminal, and variables that are named before the others are counted.
_WIDTH, _NAMED = 80, 6


def name_of(variable: Variable) -> str:
    """Return the name of a variable as the user gave it."""
    name = str(variable.name)
    return get_untransformed_name(name) if is_transformed_name(name) else name


def describe_step(made_by: str, variables: Iterable[Variable], error: str, rows: str) -> str:
    """Write what a step is, in lines of 80 columns: what it moves, how the chain errs, and what `rows` a draw reads."""
    names = [name_of(v) for v in variables]
    if len(names) > _NAMED:
        names = [*names[:_NAMED], f"{len(names) - _NAMED:,} more"]
    exact = f"approximate ({error})" if error else "exact"
    return textwrap.fill(f"{made_by}({', '.join(names)}): {exact}, {rows}", _WIDTH, subsequent_indent="    ")


def describe_rows(expected: float, n_rows: int, at_least: bool, called: str = "") -> str:
    """Write how many of the `n_rows` rows a draw reads, `at_least` where it may read more by a number not known before.

    `called` is a word for the rows, with a space after it.
    """
    if expected == 0:
        return f"reads none of {n_rows:,} {called}rows"
    if expected >= n_rows:
        return f"reads all {n_rows:,} {called}rows a draw"
    number = f"{expected:,.0f}" if expected >= 10 else f"{expected:.2g}"
    return f"{number} or more" * at_least + f"about {number}" * (not at_least) + f" of {n_rows:,} {called}rows a draw"
