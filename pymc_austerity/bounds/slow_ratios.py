"""Ratios of functions that go to their limits slowly, with the ranges of their derivatives: see `elementary`.

Densities write them as products or differences of what grows without end: ν log(1 + x²/ν), log Γ(ν + ½) − log Γ(ν).
"""

import numpy as np
from scipy import special

from pymc_austerity.bounds.elementary import Elementary, each, log1p_square_derivative, sigmoid_derivative

#: log(1 + eᵗ)/eᵗ = Σ (−1)ᵏ eᵏᵗ/(k + 1), whose turning points are zeros of the next derivative.
_RATIO_TURNING: list[tuple[float, ...]] = [
    (),
    (0.771302687234573,),
    (-0.7497534781661941, 2.3352437618415847),
    (-1.7988985156989092, 0.6404608373231707, 3.5860404440291633),
    (-2.6854727959419744, -0.34945129493744653, 1.5991225513002452, 4.7256321844672975),
]
#: Up to here by the series, of so many terms.
_RATIO_NEAR, _RATIO_TERMS = -2.0, 24


def _log1p_ratio_derivative(j: int, t: np.ndarray) -> np.ndarray:
    x = np.exp(np.minimum(t, _RATIO_NEAR))
    powers = np.arange(_RATIO_TERMS)
    near = np.polyval(((-1.0) ** powers * powers.astype(float) ** j / (powers + 1))[::-1], x)
    t = np.maximum(t, _RATIO_NEAR)
    far = np.logaddexp(0.0, t) * np.exp(-t)
    for k in range(j):  # each derivative is that of the sigmoid of −t less the one before
        far = (special.expit(-t) if k == 0 else (-1.0) ** k * sigmoid_derivative(k, -t)) - far
    return np.where(t > _RATIO_NEAR, far, near)


log1p_ratio = Elementary(each(_log1p_ratio_derivative), _RATIO_TURNING, absolute=1e-15)

#: Up to here the derivatives of log(1 + x²)/x² by its series, of so many terms.
_KERNEL_NEAR, _KERNEL_TERMS = 0.5, 40


def _log1p_square_ratio_derivative(j: int, x: np.ndarray) -> np.ndarray:
    x = np.clip(x, -1e30, 1e30)
    near = np.clip(x, -_KERNEL_NEAR, _KERNEL_NEAR)
    k = np.arange(-(-j // 2), _KERNEL_TERMS)
    series = near ** (j % 2) * np.polyval(((-1.0) ** k * special.poch(2 * k - j + 1, j) / (k + 1))[::-1], near * near)
    far = np.where(np.abs(x) > _KERNEL_NEAR, x, 1.0)
    found = [np.log1p(far * far) / far**2]
    for n in range(1, j + 1):  # of x² · log(1 + x²)/x² = log(1 + x²), by Leibniz
        before = 2 * n * far * found[n - 1] + (n * (n - 1) * found[n - 2] if n > 1 else 0.0)
        found.append((log1p_square_derivative(n, far) - before) / far**2)
    return np.where(np.abs(x) > _KERNEL_NEAR, found[j], series)


def _either_side(*at: float) -> tuple[float, ...]:
    return (*(-x for x in reversed(at)), *at)


#: log(1 + x²)/x², whose turning points are zeros of the next derivative.
log1p_square_ratio = Elementary(
    each(_log1p_square_ratio_derivative),
    [
        (0.0,),
        _either_side(0.7522085718795354),
        (0.0, *_either_side(1.3137215593907405)),
        _either_side(0.3829066281381002, 1.8276156688808407),
        (0.0, *_either_side(0.6774814536015105, 2.322045130575794)),
    ],
    absolute=1e-11,
)

#: From here on log Γ(x + ½) − log Γ(x) by its series, ½ log x − 1/8x + …, of these coefficients of odd powers of 1/x.
_HALF_FAR = 30.0
_HALF_SERIES = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336, -31 / 18432, 691 / 180224)
#: Numbers of Stirling: (x d/dx)ʲ = Σ S(j, k) xᵏ dᵏ/dxᵏ.
_STIRLING = ((), (1,), (1, 1), (1, 3, 1), (1, 7, 6, 1))


def _half_ratio_derivative(j: int, t: np.ndarray) -> np.ndarray:
    x = np.exp(np.minimum(t, np.log(_HALF_FAR)))
    if j == 0:
        near = special.gammaln(x + 0.5) - special.gammaln(x)
    else:
        near = np.zeros_like(x)
        for k, s in enumerate(_STIRLING[j], start=1):
            near = near + s * x**k * (special.polygamma(k - 1, x + 0.5) - special.polygamma(k - 1, x))
    far = np.maximum(t, np.log(_HALF_FAR))
    leading = far / 2 if j == 0 else np.full_like(far, 0.5 if j == 1 else 0.0)
    terms = [c * (-(2.0 * k + 1)) ** j * np.exp(-(2 * k + 1) * far) for k, c in enumerate(_HALF_SERIES)]
    return np.where(t > np.log(_HALF_FAR), leading + sum(terms), near)


#: log Γ(eᵗ + ½) − log Γ(eᵗ), whose turning points are zeros of the next derivative.
half_ratio = Elementary(
    each(_half_ratio_derivative),
    [
        (),
        (),
        (-1.0599188000916675,),
        (-2.2711946617197767, 0.11304897503580086),
        (-3.2069554202507526, -0.9935567904578522, 0.9149997970606641),
    ],
    absolute=1e-12,
)
