"""How far from where sampling starts the models of groups are checked by numbers."""

from collections.abc import Callable

_FARTHEST, _TRIED = 0.3, 20


def farthest(is_finite: Callable[[float], bool]) -> float:
    """Return the largest of .3, .03, ... at which the density is finite, or .3 where it is at none of them.

    Rows with covariates of 1e9 are finite near to the start alone.
    """
    return next(filter(is_finite, (_FARTHEST * 10.0**-k for k in range(_TRIED))), _FARTHEST)
