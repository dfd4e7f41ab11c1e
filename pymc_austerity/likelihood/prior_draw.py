"""Values of free variables drawn from their prior, which alone knows the support of whole numbers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence

import numpy as np
from pymc import draw
from pymc.model import Model

from pymc_austerity.compile.graph_compiler import BY_NUMPY

_log = logging.getLogger("pymc_austerity")


def prior_draw(model: Model, names: Sequence[str], rng: np.random.Generator, draws: int = 1) -> dict[str, np.ndarray]:
    """Draw free variables, named as their values are; nothing where a distribution has no random draws.

    Returns
    -------
    dict
        Arrays of the shape of each variable, with a first axis for the draws where there are several.
    """
    if not names:
        return {}
    variables = {value.name: rv for value, rv in model.values_to_rvs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's word on parameters that another draw would not have
        try:
            drawn = draw([variables[name] for name in names], draws=draws, random_seed=rng, mode=BY_NUMPY)
        except Exception as error:  # a distribution without random draws, or a parent without any
            _log.debug(f"{names} have no draws from their prior, so they are left where they start ({error}).")
            return {}
    return dict(zip(names, map(np.asarray, drawn), strict=True))
