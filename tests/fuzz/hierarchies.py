"""Random hierarchical models as programs: effects of one factor or two, centred or not, few groups or many."""

from __future__ import annotations

import numpy as np
from grammar import HEAD, Program, Writer

#: Groups of a factor; of the few, transitions are compared with the density too.
MANY, FEW = (3, 8, 40, 250), (3, 5, 8, 12)


def scale(w):
    law = w.pick("HalfNormal('{name}', 1)", "Exponential('{name}', 1)", "LogNormal('{name}', -0.5, 0.5)")
    return w.variable("s", law)


def intercepts(w, n_groups, centre):
    """Return effects of a factor with one number a group."""
    s = scale(w)
    form = w.rng.integers(5)
    if form == 0:
        return w.variable("u", f"Normal('{{name}}', {centre}, {s}, shape={n_groups})")
    if form == 1:
        return w.variable("u", f"StudentT('{{name}}', nu=5, mu={centre}, sigma={s}, shape={n_groups})")
    z = w.variable("z", f"Normal('{{name}}', 0, 1, shape={n_groups})")
    if form == 2:
        return w.value("u", f"pm.Deterministic('effect_{z}', {centre} + {s} * {z})")
    if form == 3:
        return w.value("u", f"{z} * {s} + {centre}")
    return w.value("u", f"{centre} + pt.mul({s}, {z})")


def slopes(w, n_groups, centre):
    """Return effects of a factor with two numbers a group."""
    form = w.rng.integers(4)
    if form == 0:
        s = w.variable("s", "HalfNormal('{name}', 1, shape=2)")
        return w.variable("u", f"Normal('{{name}}', [{centre}, 0.0], {s}, shape=({n_groups}, 2))")
    if form == 1:
        s = w.variable("s", "HalfNormal('{name}', 1, shape=2)")
        z = w.variable("z", f"Normal('{{name}}', 0, 1, shape=({n_groups}, 2))")
        return w.value("u", f"{centre} + {z} * {s}")
    chol = w.name("chol")
    w.lines.append(f"{chol}, _, _ = pm.LKJCholeskyCov('{chol}', n=2, eta=2, sd_dist=pm.HalfNormal.dist(1.0))")
    if form == 2:
        return w.variable("u", f"MvNormal('{{name}}', np.zeros(2), chol={chol}, shape=({n_groups}, 2))")
    z = w.variable("z", f"Normal('{{name}}', 0, 1, shape=({n_groups}, 2))")
    return w.value("u", f"{centre} + pt.dot({z}, {chol}.T)")


def factor(w, centre, n_groups):
    """Return what a factor adds to the predictor."""
    dtype = w.pick("int64", "int32", "int16")
    g = w.array("g", f"np.append(np.arange({n_groups}), rng.integers(0, {n_groups}, n - {n_groups})).astype('{dtype}')")
    w.data.append(f"truth = truth + rng.normal(0, 0.8, {n_groups})[{g}]")
    if w.chance(0.3):
        w.lines.append(f'{g} = pm.Data("{g}", {g})')
    if w.chance(0.7):
        return f"{intercepts(w, n_groups, centre)}[{g}]"
    u, x = slopes(w, n_groups, centre), w.array("x", "rng.normal(size=n)")
    return w.pick(f"{u}[{g}, 0] + {u}[{g}, 1] * {x}", f"({u}[{g}] * np.stack([np.ones(n), {x}], axis=1)).sum(-1)")


def nested(w, centre, n_groups):
    """Return what a factor adds whose groups lie in coarser ones."""
    g = w.array("g", f"np.append(np.arange({n_groups}), rng.integers(0, {n_groups}, n - {n_groups}))")
    w.data.append(f"truth = truth + rng.normal(0, 0.8, {n_groups})[{g}]")
    if w.chance(0.3):
        w.lines.append(f'{g} = pm.Data("{g}", {g})')
    return f"{intercepts(w, n_groups, of_coarser_groups(w, centre, n_groups))}[{g}]"


def of_coarser_groups(w, centre, n_groups):
    """Return the effects of coarser groups, an entry for each finer one."""
    n_coarser = max(2, n_groups // 3)
    h, more = w.name("h"), n_groups - n_coarser
    w.data.append(f"{h} = np.append(np.arange({n_coarser}), rng.integers(0, {n_coarser}, {more}))")
    return f"{intercepts(w, n_coarser, centre)}[{h}]"


def walk(w, centre, n_groups):
    """Return what a factor adds whose groups follow one another in time."""
    t = w.array("t", f"np.append(np.arange({n_groups}), rng.integers(0, {n_groups}, n - {n_groups}))")
    w.data.append(f"truth = truth + np.cumsum(rng.normal(0, 0.3, {n_groups}))[{t}]")
    more = f"sigma={scale(w)}, init_dist=pm.Normal.dist(0, 1), shape={n_groups}"
    law = w.pick(
        f"GaussianRandomWalk('{{name}}', {more})", f"GaussianRandomWalk('{{name}}', mu=0.1, {more})",
        f"AR('{{name}}', rho=[0.7], {more})",
    )  # fmt: skip
    x = w.variable("walk", law)
    return w.pick(f"{x}[{t}]", f"({centre} + {x})[{t}]", f"{centre} + 0.5 * {x}[{t}]")


def outcome(w, eta):
    """Return a line of the model: an outcome of a family whose rows have no groups of their own."""
    sigma = w.variable("sigma", "HalfNormal('{name}', 1)")
    y = w.name("y")
    real, share = "truth + rng.normal(size=n)", "1 / (1 + np.exp(-truth))"
    counts, whole = "rng.poisson(np.exp(0.5 + truth / 2))", f"rng.binomial(1, {share})"
    law, values = w.pick(
        (f"Normal('{y}', {eta}, 1.2", real), (f"Normal('{y}', {eta}, {sigma} + 0.1", real),
        (f"Bernoulli('{y}', logit_p={eta}", whole), (f"Bernoulli('{y}', p=pm.math.invprobit({eta})", whole),
        (f"Poisson('{y}', pt.exp({eta})", counts), (f"Binomial('{y}', n=6, logit_p={eta}", f"rng.binomial(6, {share})"),
        (f"StudentT('{y}', nu=4, mu={eta}, sigma={sigma} + 0.1", real),
        (f"NegativeBinomial('{y}', mu=pt.exp({eta}), alpha=2.0", counts),
        (f"Gamma('{y}', alpha=2.0, beta=2.0 * pt.exp(-({eta}))", "rng.gamma(2, 0.5, n) * np.exp(truth)"),
    )  # fmt: skip
    if f"{sigma} +" not in law:
        w.lines = [line for line in w.lines if not line.startswith(f"{sigma} =")]
    data = w.array("data", values)
    w.lines.append(f"pm.{law}, observed={w.pick(data, f'pm.Data({data!r}, {data})')})")


def hierarchy(seed, sizes=MANY):
    """Return the program of a seed, with one of so many groups."""
    w = Writer(np.random.default_rng([seed, 39]))
    n_groups = w.pick(*sizes)
    n = int(w.rng.integers(30, 60) * n_groups)
    centre = w.variable("mu", "Normal('{name}', 0, 1)") if w.chance(0.7) else "0.0"
    kind = np.random.default_rng([seed, 41]).random()
    effects = nested if kind < 0.3 else walk if kind > 0.9 else factor
    terms = [effects(w, centre, n_groups)]
    if w.chance(0.25):
        terms.append(factor(w, "0.0", w.pick(3, 6)))
    if w.chance(0.5):
        x = w.array("x", "rng.normal(size=n)")
        b = w.variable("b", "Normal('{name}', 0, 1)")
        terms.append(f"{b} * {x}")
    outcome(w, w.value("eta", " + ".join(terms)))
    body = "".join(f"    {line}\n" for line in w.lines)
    source = HEAD.format(seed=seed, n=n) + "truth = 0.0\n" + "\n".join(w.data) + "\nwith pm.Model() as model:\n" + body
    return Program(seed, source, True, False)
