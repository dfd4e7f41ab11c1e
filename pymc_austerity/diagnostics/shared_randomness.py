"""Whether two runs made their draws from the same random numbers.

Two steps with one ``random_seed`` propose the same moves, and mostly decide alike: draws in the same place of the same
chain are then correlated.
"""

import numpy as np
import xarray as xr
from scipy import special

from pymc_austerity.diagnostics.convergence import of_entries, standard_errors
from pymc_austerity.diagnostics.results import by_entry

#: Probability with which any correlation is found between runs that have none.
_LEVEL = 1e-4


def correlation_of_draws(run: xr.Dataset, reference: xr.Dataset) -> tuple[np.ndarray, bool]:
    """Return the correlation of draws in the same place, and whether any is beyond Monte Carlo error.

    Of longer runs the first draws are taken. The correlation has shape (K,); it is zero where a run never moves.
    """
    n_chains, n_draws = (min(of.sizes[dim] for of in (run, reference)) for dim in ("chain", "draw"))
    x, y = (by_entry(of.isel(chain=slice(n_chains), draw=slice(n_draws))) for of in (run, reference))
    product = _standardised(x) * _standardised(y)
    correlation = product.mean(axis=(0, 1))
    # Of independent chains the errors of these means are those of autocorrelated numbers about zero.
    errors = np.where(product.std(axis=(0, 1)) > 0, of_entries(standard_errors, product), 0.0)
    error = np.fmax(errors, 1 / np.sqrt(n_chains * n_draws))
    critical = -special.ndtri(_LEVEL / 2 / correlation.size)
    return correlation, bool((np.abs(correlation) > critical * error).any())


def _standardised(values: np.ndarray) -> np.ndarray:
    centred, sd = values - values.mean(axis=(0, 1)), values.std(axis=(0, 1))
    return np.divide(centred, sd, out=np.zeros_like(centred), where=sd > 0)
