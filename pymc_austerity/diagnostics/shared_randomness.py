"""Whether two runs made their draws from the same random numbers, and the errors of their differences if they did.

Two steps with one ``random_seed`` propose the same moves, and mostly decide alike: draws in the same place of the same
chain are then correlated, and a difference between means is far more precise than that of independent runs.
"""

import numpy as np
import xarray as xr
from scipy import special

from pymc_austerity.diagnostics.convergence import of_entries, standard_errors
from pymc_austerity.diagnostics.results import by_entry

#: Probability with which any correlation is found between runs that have none.
_LEVEL = 1e-4
#: Quantiles at which shares of draws are compared.
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Paired:
    """Draws of two runs in the same places; of longer runs the first draws.

    `whole` says whether the runs have as many chains and draws. `correlation` is that of draws in the same place, shape
    (K,), zero where one of them never moves, and `share_random_numbers` whether any is there beyond Monte Carlo error.
    """

    def __init__(self, run: xr.Dataset, reference: xr.Dataset):
        n_chains, n_draws = (min(of.sizes[dim] for of in (run, reference)) for dim in ("chain", "draw"))
        self.whole = all((of.sizes["chain"], of.sizes["draw"]) == (n_chains, n_draws) for of in (run, reference))
        self._x, self._y = (by_entry(of.isel(chain=slice(n_chains), draw=slice(n_draws))) for of in (run, reference))
        first, second = (_standardised(of) for of in (self._x, self._y))
        product = first * second
        self.correlation = product.mean(axis=(0, 1))
        # Of independent chains the errors of these means are those of autocorrelated numbers about zero.
        error = np.fmax(_errors(product), 1 / np.sqrt(n_chains * n_draws))
        critical = -special.ndtri(_LEVEL / 2 / self.correlation.size)
        self.share_random_numbers = bool((np.abs(self.correlation) > critical * error).any())

    def error_of_means(self) -> np.ndarray:
        """Return the standard error of the difference of the means."""
        return _errors(self._x - self._y)

    def error_of_sds(self) -> np.ndarray:
        """Return the standard error of s − r s₀ for the ratio r of the standard deviations, as it is now."""
        (s, of), (s0, of0) = (_squares(values) for values in (self._x, self._y))
        with np.errstate(divide="ignore", invalid="ignore"):
            halves = of / (2 * s) - s / s0 * of0 / (2 * s0)
        return np.nan_to_num(_errors(np.nan_to_num(halves)))

    def size(self) -> np.ndarray:
        """Return as many independent draws of one run as tell the two distribution functions apart equally well."""
        least = np.full(self.correlation.shape, np.inf)
        for q in _QUANTILES:
            at = np.quantile(self._y, q, axis=(0, 1))
            error = _errors((self._x <= at).astype(float) - (self._y <= at))
            with np.errstate(divide="ignore"):
                least = np.fmin(least, q * (1 - q) / np.nan_to_num(error) ** 2)
        return least


def _standardised(values: np.ndarray) -> np.ndarray:
    centred, sd = values - values.mean(axis=(0, 1)), values.std(axis=(0, 1))
    return np.divide(centred, sd, out=np.zeros_like(centred), where=sd > 0)


def _squares(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    centred = values - values.mean(axis=(0, 1))
    return values.std(axis=(0, 1)), centred**2


def _errors(values: np.ndarray) -> np.ndarray:
    """Return the Monte Carlo errors of means; none of what is the same everywhere."""
    return np.where(values.std(axis=(0, 1)) > 0, of_entries(standard_errors, values), 0.0)
