"""Cases of a test of which `make test` tries some, and `make test MARKS=slow` the others."""

from collections.abc import Collection, Iterable

import pytest


def cases(every: Iterable, fast: Collection[str]) -> list:
    """Return parameters by their names, or those of functions; those whose names are not among `fast` are slow."""
    every = list(every)
    names = [case if isinstance(case, str) else case.__name__ for case in every]
    assert set(fast) <= set(names)
    assert len(set(names)) == len(names)
    return [pytest.param(case, id=n, marks=[pytest.mark.slow] * (n not in fast)) for n, case in zip(names, every)]
