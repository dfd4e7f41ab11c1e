"""Temperatures that change while a chain tunes: at temperature K every row's log-likelihood is divided by K."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pymc_austerity.argument_kinds import is_number, is_real, is_whole
from pymc_austerity.user_input import takes_fields


@runtime_checkable
class Schedule(Protocol):
    """What a step needs of a temperature schedule.

    A chain takes ``at(t)`` for its transition number t, from 0, while it tunes, and ``final`` from then on: every
    draw that is kept was made at ``final``, however long the schedule is.
    """

    @property
    def final(self) -> float:
        """Temperature of the draws after tuning."""

    def at(self, t: int) -> float:
        """Return the temperature of transition `t`."""


@dataclass(frozen=True)
class Constant:
    """The same temperature throughout."""

    final: float  # the temperature K

    def __post_init__(self) -> None:
        _check_temperature("temperature", self.final)

    def at(self, t: int) -> float:
        """Return the temperature."""
        return self.final


@dataclass(frozen=True)
class _Falling:
    """A temperature that falls from `start` to `final` in the first `steps` transitions of tuning."""

    start: float
    steps: int
    final: float = 1.0

    def __post_init__(self) -> None:
        _check_temperature("start", self.start)
        _check_temperature("final", self.final)
        if not is_whole(self.steps, 1):
            raise ValueError(
                f"steps={self.steps} must be a whole number of at least one transition. For a constant temperature "
                "pass the number itself."
            )


@takes_fields
@dataclass(frozen=True)
class Annealing(_Falling):
    """Temperature that falls geometrically from `start` to `final` over `steps` transitions of tuning.

    Parameters
    ----------
    start : float
        Temperature of the first transition.
    steps : int
        Transitions until `final` is reached.  At most as many as ``pm.sample(tune=)``, and better fewer: a proposal
        that adapts then still learns the width of the final posterior.
    final : float, default 1.0
        Temperature of every draw after tuning; 1 is the posterior.

    Raises
    ------
    ValueError
        For temperatures that are not positive and finite, or a number of steps below one.

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> schedule = pma.Annealing(start=100, steps=2)
    >>> [float(schedule.at(t)) for t in range(4)]
    [100.0, 10.0, 1.0, 1.0]
    """

    def at(self, t: int) -> float:
        """Return the temperature of transition `t`."""
        done = min(t / self.steps, 1.0)
        return float(self.start ** (1 - done) * self.final**done)


@takes_fields
@dataclass(frozen=True)
class TemperatureDrop(_Falling):
    """Temperature `start` for the first `steps` transitions of tuning, then `final` at once.

    The burn-in of Seita, Pan, Chen and Canny (2016, Figure 3, right): K = 100 for 400 transitions, then 1.

    Parameters
    ----------
    start, steps, final
        As in `Annealing`.

    Raises
    ------
    ValueError
        As in `Annealing`.

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> schedule = pma.TemperatureDrop(start=100, steps=400)
    >>> schedule.at(399), schedule.at(400)
    (100, 1.0)
    """

    def at(self, t: int) -> float:
        """Return the temperature of transition `t`."""
        return self.start if t < self.steps else self.final


def as_schedule(temperature: float | Schedule) -> Schedule:
    """Return a schedule for a number or a schedule, or raise a TypeError or ValueError."""
    if isinstance(temperature, Schedule):
        _check_temperature("temperature.final", temperature.final)
        return temperature
    if not is_real(temperature):
        raise TypeError(
            f"temperature={temperature!r} is neither a number nor a schedule. Pass a positive number, "
            "pymc_austerity.Annealing(start=100, steps=500), or an object with `final` and `at(t)`."
        )
    return Constant(float(temperature))


def _check_temperature(name: str, value: float) -> None:
    if not (is_number(value) and value > 0):
        raise ValueError(
            f"{name}={value} must be positive and finite: every row's log-likelihood is divided by it. "
            "1 samples the posterior."
        )
