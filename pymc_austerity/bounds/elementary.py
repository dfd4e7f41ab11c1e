"""The range of a function of one number, and of its first four derivatives, over an interval.

A function that only rises or falls between the points where it turns takes its extremes there or at the ends, so with
the turning points of every derivative written down the ranges are exact up to rounding.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pytensor import scalar
from pytensor.scalar import math as scalar_math
from scipy import special

from pymc_austerity.bounds.intervals import Interval, everything

#: Relative error granted to the library functions and to the few operations after them: SciPy's special functions are
#: good to some 1e-14.
_RELATIVE = 1e-13
#: Highest derivative that rules have.
HIGHEST = 4
Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Elementary:
    """A smooth function of one number."""

    derivatives: Sequence[Function]  # the function and its first four derivatives
    turning: Sequence[tuple[float, ...]] = ((),) * 5  # for each of them, where it turns from rising to falling or back
    domain: tuple[float, float] = (-np.inf, np.inf)  # open interval on which the derivatives hold
    #: Relative error of the computed function and of each of its derivatives.
    relative: tuple[float, ...] = (_RELATIVE,) * 5
    absolute: float = 0.0  # error where terms of size one cancel

    def range(self, order: int, x: Interval) -> Interval:
        """Return an enclosure of the derivative of that order over `x`.

        Where `x` leaves the domain, it is the interval of all numbers.
        """
        f = self.derivatives[order]
        with np.errstate(all="ignore"):
            first = f(x.lo)
            last = first if x.is_point else f(x.hi)
            lo, hi = np.minimum(first, last), np.maximum(first, last)
            for turn in () if x.is_point else self.turning[order]:
                inside, extreme = (x.lo < turn) & (turn < x.hi), f(np.asarray(turn))
                lo, hi = (np.where(inside, np.minimum(lo, extreme), lo), np.where(inside, np.maximum(hi, extreme), hi))
            lo = lo - self.relative[order] * np.abs(lo) - self.absolute
            hi = hi + self.relative[order] * np.abs(hi) + self.absolute
        outside = (x.lo <= self.domain[0]) & np.isfinite(self.domain[0])
        outside = outside | ((x.hi >= self.domain[1]) & np.isfinite(self.domain[1])) | np.isnan(lo) | np.isnan(hi)
        if outside.any():
            nothing = everything(lo)
            lo, hi = np.where(outside, nothing.lo, lo), np.where(outside, nothing.hi, hi)
        return Interval(lo, hi)


def each(derivative: Callable[[int, np.ndarray], np.ndarray], orders: Iterable[int] = range(5)) -> list[Function]:
    """Return the derivatives of these orders as functions of one argument."""
    return [partial(derivative, j) for j in orders]


def _power_law(exponent: float) -> Elementary:
    factors = [1.0]
    for j in range(4):
        factors.append(factors[-1] * (exponent - j))

    def derivative(j: int, x: np.ndarray) -> np.ndarray:
        return factors[j] * np.power(x, exponent - j) if factors[j] else np.zeros_like(x)

    return Elementary(each(derivative), domain=(0.0, np.inf))


def power(exponent: float) -> Elementary:
    """Return x^p on x > 0, and for p = 1, 2, 3, … everywhere."""
    if exponent <= 0 or exponent != int(exponent):
        return _power_law(exponent)
    law = _power_law(exponent)
    # An even power turns at 0.
    turning = [(0.0,) if (exponent - j) % 2 == 0 and exponent > j else () for j in range(5)]
    return Elementary(law.derivatives, turning)


def _log_derivatives(shift: float) -> list[Function]:
    return each(lambda j, x: (-1.0) ** (j + 1) * special.factorial(j - 1) * (x + shift) ** -j, range(1, 5))


def _logit(p: float) -> tuple[float, float]:
    x = float(special.logit(p))
    return (-abs(x), abs(x))


def sigmoid_derivative(j: int, x: np.ndarray) -> np.ndarray:
    """Return the derivative of order 1 to 4 of 1/(1 + e⁻ˣ)."""
    # w = s(1 − s) and d = 1 − 2s, without cancellation in either tail.
    e = np.exp(-np.abs(x))
    w = e / np.square(1 + e)
    if j % 2 == 1:
        return [w, w * (1 - 6 * w), w * (1 - 30 * w + 120 * w * w)][j // 2]
    d = np.copysign(np.expm1(-np.abs(x)) / (1 + e), -x)
    return w * d if j == 2 else w * d * (1 - 12 * w)


# s(1 − s) at the turning points solves 1 − 6w = 0, 1 − 12w = 0 and 1 − 30w + 120w² = 0.
_SIGMOID_TURNING: list[tuple[float, ...]] = [
    (),
    (0.0,),
    _logit((3 - np.sqrt(3)) / 6),
    (0.0, *_logit((3 - np.sqrt(6)) / 6)),
    (
        *_logit((1 - np.sqrt(1 - 4 * (30 - np.sqrt(420)) / 240)) / 2),
        *_logit((1 - np.sqrt(1 - 4 * (30 + np.sqrt(420)) / 240)) / 2),
    ),
]

_sigmoid = Elementary([special.expit, *each(sigmoid_derivative, range(1, 5))], _SIGMOID_TURNING, absolute=1e-16)
softplus = Elementary(
    [lambda x: np.logaddexp(0.0, x), *_sigmoid.derivatives[:4]], [(), *_SIGMOID_TURNING[:4]], absolute=1e-16
)


def _bose(x: np.ndarray) -> np.ndarray:
    return 1 / np.expm1(-x)


#: log(1 − eˣ) for x < 0: the derivatives are polynomials with one sign in 1/(e⁻ˣ − 1), which rises.
log1mexp = Elementary(
    [
        lambda x: np.where(x > -0.683, np.log(-np.expm1(x)), np.log1p(-np.exp(x))),
        lambda x: -_bose(x),
        lambda x: -_bose(x) * (1 + _bose(x)),
        lambda x: -_bose(x) * (1 + _bose(x)) * (1 + 2 * _bose(x)),
        lambda x: -_bose(x) * (1 + _bose(x)) * (1 + 6 * _bose(x) * (1 + _bose(x))),
    ],
    domain=(-np.inf, 0.0),
)

_R2 = np.sqrt(2)


def log1p_square_derivative(j: int, x: np.ndarray) -> np.ndarray:
    """Return the derivative of order 1 to 4 of log(1 + x²)."""
    x = np.clip(x, -1e30, 1e30)  # beyond, all derivatives are within `absolute` of 0
    q = 1 + x * x
    return [2 * x / q, 2 * (1 - x * x) / q**2, 4 * x * (x * x - 3) / q**3, -12 * (x**4 - 6 * x * x + 1) / q**4][j - 1]


#: log(1 + x²), the kernel of Student's t.
log1p_square = Elementary(
    [lambda x: np.log1p(x * x), *each(log1p_square_derivative, range(1, 5))],
    [
        (0.0,),
        (-1.0, 1.0),
        (-np.sqrt(3), 0.0, np.sqrt(3)),
        (-_R2 - 1, 1 - _R2, _R2 - 1, _R2 + 1),
        (
            -np.sqrt(5 + 2 * np.sqrt(5)),
            -np.sqrt(5 - 2 * np.sqrt(5)),
            0.0,
            np.sqrt(5 - 2 * np.sqrt(5)),
            np.sqrt(5 + 2 * np.sqrt(5)),
        ),
    ],
    absolute=1e-15,
)


def _erf_derivative(j: int, x: np.ndarray) -> np.ndarray:
    hermite = [1.0, -2 * x, 4 * x * x - 2, -(8 * x**3 - 12 * x)][j - 1]
    return 2 / np.sqrt(np.pi) * hermite * np.exp(-x * x)


_H4 = tuple(s * np.sqrt((3 + t * np.sqrt(6)) / 2) for s in (-1, 1) for t in (-1, 1))
_erf = Elementary(
    [special.erf, *each(_erf_derivative, range(1, 5))],
    [(), (0.0,), (-np.sqrt(0.5), np.sqrt(0.5)), (-np.sqrt(1.5), 0.0, np.sqrt(1.5)), _H4],
    absolute=1e-15,
)


_erfc = Elementary(
    [special.erfc, *each(lambda j, x: -_erf_derivative(j, x), range(1, 5))], _erf.turning, absolute=1e-15
)


#: From here on down the terms of the derivatives of log Φ cancel, and their series in 1/x is the better.
_FAR = -20.0
#: Coefficients of the inverse Mills ratio t + 1/t − 2/t³ + …, t = −x, from its first derivative on.
_MILLS_SERIES = np.array([1.0, -2.0, 10.0, -74.0, 706.0, -8162.0])


def _inverse_mills_series(t: np.ndarray, times: int) -> np.ndarray:
    """Return (−1)^k times the k-th derivative of t + 1/t − 2/t³ + … for large t."""
    total = t if times == 0 else np.full_like(t, -1.0 if times == 1 else 0.0)
    for k, c in enumerate(_MILLS_SERIES):
        power = 2 * k + 1
        total = total + c * special.poch(power, times) * t ** -(power + times)
    return total


def _log_ndtr_derivative(j: int, x: np.ndarray) -> np.ndarray:
    near = np.clip(x, _FAR, 40.0)  # from 38 on all derivatives are below the smallest float
    m = np.sqrt(2 / np.pi) / special.erfcx(-near / _R2)
    u = near + m
    third = u * u + m * u - 1
    close = [m, -m * u, m * third, -m * u * third + m * ((2 * u + m) * (1 - m * u) - m * u * u)][j - 1]
    return np.where(x < _FAR, _inverse_mills_series(np.maximum(-x, -_FAR), j - 1), close)


#: log Φ.  The turning points of its third and fourth derivative are zeros of the next, found with sixty digits.
log_ndtr = Elementary(
    [special.log_ndtr, *each(_log_ndtr_derivative, range(1, 5))],
    [(), (), (), (1.0023693422683706,), (-0.029833620926059144, 2.071288938808874)],
    relative=(3e-13, 3e-13, 2e-12, 3e-8, 3e-6),
    absolute=1e-300,
)


_RISE = 1.4616321449683623  # where Γ is smallest
_gammaln = Elementary(
    [special.gammaln, special.psi, *each(special.polygamma, (1, 2, 3))],
    [(_RISE,), (), (), (), ()],
    domain=(0.0, np.inf),
    absolute=1e-14,
)
_psi = Elementary([special.psi, *each(special.polygamma, (1, 2, 3, 4))], domain=(0.0, np.inf), absolute=1e-14)
_tri_gamma = Elementary(each(special.polygamma, range(1, 6)), domain=(0.0, np.inf))


_tanh = Elementary(
    [np.tanh, *each(lambda j, x: 2.0 ** (j + 1) * sigmoid_derivative(j, 2 * x), range(1, 5))],
    [tuple(t / 2 for t in turning) for turning in _SIGMOID_TURNING],
    absolute=1e-14,
)

exp = Elementary([np.exp] * 5)
_expm1 = Elementary([np.expm1] + [np.exp] * 4)
log = Elementary([np.log, *_log_derivatives(0.0)], domain=(0.0, np.inf))
_log1p = Elementary([np.log1p, *_log_derivatives(1.0)], domain=(-1.0, np.inf))

#: The rule of each scalar operation of one argument.
RULES: dict[type, Elementary] = {
    scalar.Exp: exp,
    scalar.Expm1: _expm1,
    scalar.Log: log,
    scalar.Log1p: _log1p,
    scalar.Sqr: power(2.0),
    scalar.Sqrt: power(0.5),
    scalar.Tanh: _tanh,
    scalar_math.Sigmoid: _sigmoid,
    scalar_math.Softplus: softplus,
    scalar_math.Log1mexp: log1mexp,
    scalar_math.Erf: _erf,
    scalar_math.Erfc: _erfc,
    scalar_math.GammaLn: _gammaln,
    scalar_math.Psi: _psi,
    scalar_math.TriGamma: _tri_gamma,
}
