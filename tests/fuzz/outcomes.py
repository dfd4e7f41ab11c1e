"""Outcomes of random models: each adds its data, its predictor and a line of the model."""

from __future__ import annotations

from predictors import positive, predictor, prior, real


def observed(w, expression):
    """Return the outcome in one of the forms in which users hold it."""
    y = w.array("y", expression)
    form = w.rng.integers(6)
    if form == 0:
        return f'pm.Data("{y}_data", {y})'
    return (f"pd.Series({y})", f"np.asfortranarray({y})", f"mapped({y})", y, y)[form - 1]


def say(w, law, y, more=""):
    name = w.name("y")
    w.lines.append(f"pm.{law.format(name=name)[:-1]}, observed={y}{more})")


def gaussian(w):
    u, eta = w.unit(), predictor(w)
    s = positive(w, u)
    if w.chance(0.25):
        x, v = real(w)
        law = f"Normal('{{name}}', pt.switch({x} > {prior(w, f'(1 / {v})')}, {u} * {eta}, {u} * ({eta} + 1)), {s})"
        return say(w, law, observed(w, f"{u} * rng.normal(size=n)"))
    spelt = w.pick(
        f"Normal('{{name}}', {u} * {eta}, {s})", f"Normal('{{name}}', mu={u} * {eta}, tau=1 / {s} ** 2)",
        f"Normal('{{name}}', {u} * {eta}, {u} * pt.exp(0.1 * {eta}))", f"Normal('{{name}}', {u} * {eta}, 1.3 * {u})",
        f"Laplace('{{name}}', {u} * {eta}, {s})", f"Logistic('{{name}}', {u} * {eta}, {s})",
        f"Cauchy('{{name}}', {u} * {eta}, {s})", f"SkewNormal('{{name}}', mu={u} * {eta}, sigma={s}, alpha=1.5)",
        f"StudentT('{{name}}', 4, mu={u} * {eta}, sigma={s})",
        f"StudentT('{{name}}', pm.Gamma('nu_{eta}', 2, 0.1), mu={u} * {eta}, sigma={s})",
        f"Gumbel('{{name}}', {u} * {eta}, {s})", f"AsymmetricLaplace('{{name}}', kappa=2, mu={u} * {eta}, b=1 / {s})",
    )  # fmt: skip
    return say(w, spelt, observed(w, f"{u} * rng.normal(size=n)"))


def binary(w):
    eta = predictor(w)
    p = w.pick(
        f"logit_p={eta}", f"p=pm.math.sigmoid({eta})", f"p=pm.math.invprobit({eta})",
        f"p=pt.clip(1 - pt.exp(-pt.exp({eta})), 1e-9, 1 - 1e-9)", f"p=0.02 + 0.96 * pm.math.sigmoid({eta})",
    )  # fmt: skip
    dtype = w.pick("int64", "int8", "bool", "float64", "uint8")
    say(w, f"Bernoulli('{{name}}', {p})", observed(w, f"rng.integers(0, 2, n).astype('{dtype}')"))


def binomial(w):
    eta = predictor(w)
    trials = w.array("m", "rng.integers(4, 9, n)") if w.chance(0.5) else "8"
    p = w.pick(f"logit_p={eta}", f"p=pm.math.sigmoid({eta})", f"p=pm.math.invprobit({eta})")
    y = observed(w, "rng.integers(0, 5, n)")
    if w.chance(0.25):
        p = f"alpha=2 * pm.math.sigmoid({eta}), beta=2.5"
        return say(w, f"BetaBinomial('{{name}}', n={trials}, {p})", y)
    return say(w, f"Binomial('{{name}}', n={trials}, {p})", y)


def counts(w):
    eta, dtype = predictor(w), w.pick("int64", "int16", "uint8", "float64")
    exposure = w.array("e", "rng.uniform(0.5, 2, n)") if w.chance(0.5) else "1.0"
    mu = w.pick(f"{exposure} * pt.exp({eta})", f"pt.exp({eta} + np.log({exposure}))", f"pt.exp({eta}) * {exposure}")
    law = w.pick(
        f"Poisson('{{name}}', {mu})", f"Poisson('{{name}}', {mu})",
        f"NegativeBinomial('{{name}}', mu={mu}, alpha={positive(w)})",
        f"NegativeBinomial('{{name}}', mu={mu}, alpha=2.0)",
        f"ZeroInflatedPoisson('{{name}}', psi=pm.Beta('psi_{eta}', 1, 1), mu={mu})",
        f"ZeroInflatedNegativeBinomial('{{name}}', psi=0.7, mu={mu}, alpha=2.0)",
        f"HurdlePoisson('{{name}}', psi=0.7, mu={mu})", f"Geometric('{{name}}', 0.5 / (1 + {mu}))",
    )  # fmt: skip
    low = 1 if law.startswith("Geometric") else 0
    say(w, law, observed(w, f"(rng.poisson(2, n) + {low}).astype('{dtype}')"))


def durations(w):
    u, eta = w.unit(), predictor(w)
    mu, a = f"({u} * pt.exp({eta}))", positive(w)
    say(w, w.pick(
        f"Exponential('{{name}}', scale={mu})", f"Exponential('{{name}}', 1 / {mu})",
        f"Gamma('{{name}}', alpha={a}, beta={a} / {mu})", f"Weibull('{{name}}', alpha={a}, beta={mu})",
        f"LogNormal('{{name}}', np.log({u}) + {eta}, {a})", f"InverseGamma('{{name}}', alpha=2.0, beta={mu})",
        f"Wald('{{name}}', mu={mu}, lam={u} * {a})", f"HalfNormal('{{name}}', {mu})",
        f"HalfStudentT('{{name}}', nu=3, sigma={mu})", f"Pareto('{{name}}', alpha={a}, m=1e-3 * {u})",
    ), observed(w, f"{u} * rng.gamma(2, 0.5, n) + 0.01 * {u}"))  # fmt: skip


def shares(w):
    eta = predictor(w)
    mean = f"pm.math.sigmoid({eta})"
    say(w, w.pick(
        f"Beta('{{name}}', mu={mean}, nu=5.0)", f"Beta('{{name}}', alpha=4 * {mean}, beta=4 * (1 - {mean}))",
        f"LogitNormal('{{name}}', {eta}, 1.0)", f"Kumaraswamy('{{name}}', a=1 + {mean}, b=2.0)",
    ), observed(w, "rng.beta(2, 2, n)"))  # fmt: skip


def cut_off(w):
    """Censored and truncated rows, with limits for all of them or for each."""
    u, eta = w.unit(), predictor(w)
    if w.chance(0.5):
        base = w.pick(f"pm.Exponential.dist(scale={u} * pt.exp({eta}))", f"pm.Weibull.dist(1.5, {u} * pt.exp({eta}))")
        t = w.array("time", f"{u} * rng.exponential(size=n)")
        c = w.array("limit", f"{u} * rng.uniform(0.5, 2, n)")
        limit = w.pick(c, f"np.where({t} > {c}, {c}, np.inf)")
        law = f"Censored('{{name}}', {base}, lower=None, upper={limit})"
        return say(w, law, f"np.minimum({t}, {c})")
    base = w.pick(f"pm.Normal.dist({u} * {eta}, {u})", f"pm.Logistic.dist({u} * {eta}, {u})")
    low, high = w.array("low", f"-{u} * rng.uniform(1, 2, n)"), w.array("high", f"{u} * rng.uniform(1, 2, n)")
    y = w.array("y", f"{u} * rng.normal(size=n)")
    limits = w.pick((low, high), (f"-{u}", f"{u}"), (low, "None"), ("None", high))
    inside = f"np.clip({y}, {limits[0]}, {limits[1]})"
    if w.chance(0.7):
        return say(w, f"Censored('{{name}}', {base}, lower={limits[0]}, upper={limits[1]})", inside)
    return say(w, f"Truncated('{{name}}', {base}, lower={limits[0]}, upper={limits[1]})", f"0.99 * {inside}")


def classes(w):
    k = int(w.rng.integers(3, 5))
    y = f"rng.integers(0, {k}, n).astype('{w.pick('int64', 'int8', 'int32')}')"
    if w.chance(0.5):
        eta = predictor(w)
        cut = w.variable(
            "cut", f"Normal('{{name}}', 0, 1.5, shape={k - 1}, transform=pm.distributions.transforms.ordered, "
            f"initval=np.arange({k - 1.0}))",
        )  # fmt: skip
        law = w.pick("OrderedLogistic", "OrderedProbit")
        return say(w, f"{law}('{{name}}', eta={eta}, cutpoints={cut})", observed(w, y))
    X = w.array("X", "rng.normal(size=(n, 2))")
    B = w.variable("B", f"Normal('{{name}}', 0, 1, shape=(2, {k}))")
    p = w.pick(
        f"logit_p=pt.dot({X}, {B})", f"p=pm.math.softmax(pt.dot({X}, {B}), axis=-1)",
        f"p=pt.special.softmax(({X} @ {B}), axis=1)", f"logit_p=pt.dot({B}.T, {X}.T).T",
    )  # fmt: skip
    return say(w, f"Categorical('{{name}}', {p})", observed(w, y))


def mixture(w):
    u, eta = w.unit(), predictor(w)
    weights = w.variable("w", "Dirichlet('{name}', np.ones(2))")
    y = observed(w, f"{u} * rng.normal(size=n)")
    if w.chance(0.5):
        parts = f"[pm.Normal.dist({u} * {eta}, {u}), pm.StudentT.dist(4, mu={u} * {eta}, sigma=2 * {u})]"
        return say(w, f"Mixture('{{name}}', w={weights}, comp_dists={parts})", y)
    mu = w.variable("mu", f"Normal('{{name}}', [-{u}, {u}], {u}, shape=2)")
    if w.chance(0.5):
        return say(w, f"NormalMixture('{{name}}', w={weights}, mu={mu} + {u} * {eta}[:, None], sigma={u})", y)
    each = f"pt.log({weights}) - 0.5 * (({y}[:, None] - {mu} - {u} * {eta}[:, None]) / {u}) ** 2"
    w.lines.append(f"pm.Potential('{w.name('y')}', pt.logsumexp({each}, axis=1))".replace("pd.Series", "np.asarray"))
    return None


def vectors(w):
    u, eta = w.unit(), predictor(w)
    y = observed(w, f"{u} * rng.normal(size=(n, 2))").replace("pd.Series", "pd.DataFrame")
    mu = f"{u} * pt.stack([{eta}, 0.5 * {eta}], axis=1)"
    form = w.rng.integers(3)
    if form == 0:
        chol = w.name("chol")
        w.lines.append(f"{chol}, _, _ = pm.LKJCholeskyCov('{chol}', n=2, eta=2, sd_dist=pm.HalfNormal.dist({u}))")
        return say(w, f"MvNormal('{{name}}', {mu}, chol={chol})", y)
    if form == 1:
        cov = f"({u} ** 2 * np.array([[1.0, 0.3], [0.3, 1.0]]))"
        return say(w, f"MvNormal('{{name}}', {mu}, {cov})", y)
    return say(w, f"Normal('{{name}}', {mu}, {u})", y)


def potential(w):
    u, eta = w.unit(), predictor(w)
    y = w.array("y", f"{u} * rng.normal(size=n)")
    law = w.pick(f"pm.Normal.dist({u} * {eta}, {u})", f"pm.StudentT.dist(4, mu={u} * {eta}, sigma={u})")
    term = w.pick(f"pm.logp({law}, {y})", f"-0.5 * (({y} / {u}) - {eta}) ** 2", f"-pt.softplus(-{eta} * np.sign({y}))")
    w.lines.append(f"pm.Potential('{w.name('y')}', {term})")


def written(w):
    """A law that the user wrote."""
    u, eta = w.unit(), predictor(w)
    y = observed(w, f"{u} * rng.normal(size=n)")
    logp = w.pick(
        f"lambda value, mu: -0.5 * ((value - mu) / {u}) ** 2 - np.log({u})",
        f"lambda value, mu: -pt.log(1 + ((value - mu) / {u}) ** 2)",
    )
    name = w.name("y")
    w.lines.append(f"pm.CustomDist('{name}', {u} * {eta}, logp={logp}, observed={y})")


def summed(w):
    """A potential that is a sum over rows, and numbers beside it."""
    u, eta = w.unit(), predictor(w)
    y = w.array("y", f"{u} * rng.normal(size=n)")
    s = positive(w)
    r = w.value("r", f"({y} / {u} - {eta}) / {s}")
    term = w.pick(
        f"-0.5 * pt.sum({r} ** 2) - n * pt.log({s})", f"-0.5 * pt.dot({r}, {r})", f"-0.5 * ({r} @ {r}) - pt.log({s})",
        f"pm.logp(pm.StudentT.dist(4, mu={u} * {eta}, sigma={u} * {s}), {y}).sum()", f"-n * pt.mean(pt.abs({r}))",
        f"-(pt.log1p({r} ** 2)).sum(axis=0) - {r}.shape[0] * pt.log({s})", f"-pt.sqr({r}).sum() / 2",
        f"pm.math.sum(-0.5 * {r} ** 2 - pm.math.log({s}))", f"-0.5 * pt.linalg.norm({r}) ** 2",
        f"-pt.sum(pt.switch(pt.gt({r}, 1), {r} - 0.5, 0.5 * {r} ** 2))", f"-pt.sum([{r}.sum(), ({r} ** 2).sum()])",
    )  # fmt: skip
    w.lines.append(f"pm.Potential('{w.name('y')}', {term})")


def chosen(w):
    """Rows that choose among predictors."""
    u, g = w.unit(), w.array("g", f"rng.integers(0, 3, n).astype('{w.pick('int8', 'int64')}')")
    parts = [predictor(w), predictor(w), prior(w)]
    eta = w.value("eta", w.pick(
        f"pt.choose({g}, pt.stack([{parts[0]}, {parts[1]}, {parts[2]} * pt.ones(len({g}))]))",
        f"pt.stack([{parts[0]}, {parts[1]}, {parts[2]} * pt.ones(len({g}))])[{g}, np.arange(len({g}))]",
        f"pt.where(pt.eq({g}, 0), {parts[0]}, pt.where(pt.eq({g}, 1), {parts[1]}, {parts[2]}))",
        f"pm.math.switch({g} > 0, pm.math.switch({g} > 1, {parts[0]}, {parts[1]}), {parts[2]})",
    ))  # fmt: skip
    say(w, f"Normal('{{name}}', {u} * {eta}, {u})", observed(w, f"{u} * rng.normal(size=n)"))


def alike(w):
    """Outcomes of one shape in a loop, with parameters of their own."""
    u, (x, v), k = w.unit(), real(w), int(w.rng.integers(3, 12))
    b, s = prior(w, v), positive(w, u)
    a, y, name = w.variable("a", f"Normal('{{name}}', 0, 1, shape={k})"), w.name("y"), w.name("u")
    own = w.pick(
        f"{a}[k]", f"pm.Normal(f'{name}_{{k}}', {b} * {v}, 1)", f"pm.Normal(f'{name}_{{k}}', 0, 1 + k)",
        f"{a}.mean() + pm.Exponential(f'{name}_{{k}}', 2)", f"pt.exp({a}[k]) + k",
    )  # fmt: skip
    slope = w.pick(f"{b} * {x}", f"{a}[k] * {x} / {v}", "0", f"pm.math.dot(X{y}, pm.Normal(f'{name}_b{{k}}', shape=2))")
    w.data.append(f"X{y} = rng.normal(size=(n, 2))[order]")
    if w.chance(0.5):
        w.data.append(f"{y} = {u} * rng.normal(size=(n, {k}))[order]")
        law = w.pick(f"Normal(f'{y}_{{k}}', {{0}}, {s})", f"StudentT(f'{y}_{{k}}', 3, mu={{0}}, sigma={s} * (1 + k))",
                     f"Normal(f'{y}_{{k}}', mu={{0}}, tau=1 / {s} ** 2)")  # fmt: skip
        law = law.replace("{0}", f"{u} * ({own} + {slope})")
    else:
        w.data.append(f"{y} = rng.integers(0, 2, (n, {k}))[order]")
        law = w.pick(f"Bernoulli(f'{y}_{{k}}', logit_p={{0}})", f"Poisson(f'{y}_{{k}}', pt.exp({{0}}))",
                     f"ZeroInflatedPoisson(f'{y}_{{k}}', 0.5, pt.exp({{0}}))")  # fmt: skip
        law = law.replace("{0}", f"{own} + {slope}")
    w.lines.append(f"for k in range({k}): pm.{law[:-1]}, observed={y}[:, k])")


#: Added later: programs of the first seeds, which tests name, do not have them.
LATER = (summed, summed, chosen, alike, alike)
OUTCOMES = (
    gaussian, gaussian, binary, binary, binomial, counts, counts, durations, durations, shares, cut_off, cut_off,
    classes, mixture, vectors, potential, written,
)  # fmt: skip
