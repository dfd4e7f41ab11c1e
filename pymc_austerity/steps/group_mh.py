"""A step for models with groups: what they share moves with all of them, and each of them by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from pytensor.graph.basic import Variable

from pymc_austerity.acceptance import AcceptanceTest, NoisePenalty
from pymc_austerity.argument_kinds import is_number
from pymc_austerity.steps.groups_of_step import GroupPlan
from pymc_austerity.steps.options import CommonOptions, shows_options
from pymc_austerity.steps.row_step import RowStep
from pymc_austerity.user_input import model_of, shown, variables_of


@shows_options
class GroupMH(RowStep):
    """Metropolis–Hastings for models with groups (random effects), a move for each part of their structure.

    `PenaltyMH`, `MHSS` and other steps make the same moves where a model has groups.  This one chooses the test, and
    refuses a model in which no groups are found.

    Groups are found in the graph of the model: a variable with an entry for each group that the rows read through an
    index, ``u[g]``, whose prior is a sum over groups given everything else.  Centred or not, one or several numbers a
    group, any such prior.  A draw moves what the groups share, with all groups carried along, and then a part of the
    groups, each of which decides for itself on its own rows.

    Parameters
    ----------
    vars : sequence of Variable, optional
        Has to name all free variables of the model, as it does by default.
    test : AcceptanceTest, optional
        How the move of what is shared is decided.  By default on a Poisson number of rows, exactly, where bounds on
        what the expansion leaves of a row are known and ask for few (as in `MHSS`); otherwise by a penalty for the
        noise of a batch (as in `PenaltyMH`), of as many rows as make an accepted move cheapest.  With ``pma.Exact()``
        everything is decided on all rows.
    refreshed : float or "auto", default "auto"
        Share of the groups that move by themselves in a draw, in (0, 1].  By default between 0.3 and 1: as large as
        costs at most half as much again as the rest of the draw.
    data : None
        Refused, with what to do: groups are moved on their own rows, which blocks do not keep together.
    **options
        As of every step.

    Raises
    ------
    GroupsNotFoundError
        No groups are found; the message says what stands in the way of each candidate.
    NotRowWiseError, ValueError
        As in `ApproxMH`; discrete variables, an argument out of range, no centre to expand the rows around.

    Notes
    -----
    With φ all that is no group's own and u_g the parameters of a group, the log-likelihood of every group is expanded
    to second order, so that given φ the u_g are about N(m_g(φ), Σ_g(φ)).  The carried move proposes φ′ and keeps every
    z_g = Σ_g(φ)^{-1/2}(u_g − m_g(φ)); its ratio has the Jacobian Π (det Σ_g(φ′) / det Σ_g(φ))^{1/2}.  The refresh draws
    new z_g.  Shifts that no row sees (a coefficient up and effects down by its column, where that is constant within
    groups), and moves of means and scales of effects given the effects, are decided by the prior.

    Where errors are normal (``pm.Normal``, ``pm.LogNormal`` with one ``sigma`` or ``tau``, or a known one, effects
    centred) no row is read, whatever the test: the expansion, multiplied by e^{k(s − ŝ)} for a scale with logarithm s,
    is the log-likelihood, which is shown from the graph and compared with all rows.

    Elsewhere, where the remainders of rows have bounds, every group decides exactly, and most of them read no row at
    all: a row changes by at most c_i M_g, M_g the sum of the cubes of the distances of the group from its centre at
    both ends of the move, and rows are drawn and thinned as in `MHSS`.  Without bounds groups of up to 600 rows decide
    on all of them, without error, and larger ones by `test`.  The log says which of these it is.

    Where rows a group are few, proposals read the expansion averaged over the posterior in place of that at the mode.
    The centre of φ is found with it before sampling; it and the spread are learnt on while tuning, and kept from then
    on.

    Memory is a copy of the data sorted by group and O(G (K² + K R)) numbers for G groups of K parameters and R shared
    parameters that the rows read.  With several factors (crossed or nested) the groups of all are carried at once, and
    each factor is refreshed given the others; that takes an index of the rows for each further factor, and K² numbers
    for each two groups with rows in common.  Of shared parameters there may be 200.

    References
    ----------
    O. Papaspiliopoulos, T. Stumpf-Fétizon and G. Zanella, Scalable Bayesian computation for crossed and nested
    hierarchical models, Electronic Journal of Statistics 17, 2023.
    Y. Yu and X.-L. Meng, To center or not to center: that is not the question, Journal of Computational and Graphical
    Statistics 20, 2011.
    E. Prado, C. Nemeth and C. Sherlock, Metropolis–Hastings with scalable subsampling, arXiv 2407.19602, 2024.
    D. M. Ceperley and M. Dewing, The penalty method for random walks with uncertain energies, Journal of Chemical
    Physics 110, 1999.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rng = np.random.default_rng(0)
    >>> g = rng.integers(0, 50, size=5_000)
    >>> with pm.Model():
    ...     scale = pm.HalfNormal("scale")
    ...     effect = pm.Normal("effect", 0, scale, shape=50)
    ...     y = pm.Normal("y", effect[g], 1, observed=rng.normal(size=50)[g] + rng.normal(size=5_000))
    ...     idata = pm.sample(
    ...         step=pma.GroupMH(), tune=200, draws=100, chains=2, cores=1,
    ...         random_seed=1, progressbar=False, compute_convergence_checks=False,
    ...     )
    >>> bool((idata.sample_stats["n_refreshed"] == 50).all())
    True
    >>> bool(idata.sample_stats["n_rows"].mean() < 50)  # of 5,000
    True
    """

    name = "group_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        test: AcceptanceTest | None = None,
        refreshed: float | str = "auto",
        data: Any = None,
        tune: bool = True,
        **options: Unpack[CommonOptions],
    ):
        if data is not None:
            raise ValueError(
                "data= does not go with GroupMH, which moves each group on its own rows and wants them together. Sort "
                "the table by group once (set_index of Dask sorts on disk), and hold it in a memory map, which "
                "GroupMH takes like any array. For few groups use PenaltyMH(data=...), with the group as an index."
            )
        if refreshed != "auto" and not (is_number(refreshed) and 0 < float(refreshed) <= 1):
            raise ValueError(
                f"refreshed={refreshed!r} must lie in (0, 1]: it is the share of the groups that move by themselves in "
                'a draw, and a group that never does keeps its z. Use 0.2, or "auto".'
            )
        if test is not None and (isinstance(test, type) or not hasattr(test, "reads")):
            raise TypeError(f"GroupMH: test= wants a test such as pma.Exact(), and got {shown(test)}.")
        options["model"] = model = model_of(options.get("model"), "GroupMH")
        moved = variables_of(model.value_vars if vars is None else vars, model, "GroupMH")
        if left := [v.name for v in model.value_vars if v not in moved]:
            raise ValueError(
                f"GroupMH moves all variables of a model together, and vars= leaves out {left}: groups are independent "
                "only given everything else that moves. Leave vars= out, or use PenaltyMH."
            )
        super().__init__(
            test or NoisePenalty(500),  # without one `by_groups` finds the best
            moved,
            by_groups=GroupPlan(test, None if isinstance(refreshed, str) else refreshed, required=True),
            tune=tune,
            **options,
        )
