"""Predictors of random models: columns in any unit and layout, coefficients, and terms of about one in size."""

from __future__ import annotations

LAYOUTS = (
    "{0}", "{0}", "np.repeat({0}, 2, axis=0)[::2]", "np.ascontiguousarray({0}[::-1])[::-1]", "np.asfortranarray({0})",
    "mapped({0})", "pd.Series({0}).to_numpy()", "{0}.astype('>f8').astype('f8')",
)  # fmt: skip


def real(w):
    """Return the name of a real column and its unit."""
    unit = w.unit()
    law = w.pick("rng.normal(size=n)", "rng.normal(size=n)", "rng.uniform(0, 2, n)", "rng.standard_t(4, n)")
    name = w.array("x", f"{unit} * {law}")
    w.data.append(f"{name} = " + w.pick(*LAYOUTS).format(name))
    if w.chance(0.15) and abs(float(unit)) < 1e9 and float(unit) > 1e-9:
        w.data.append(f"{name} = {name}.astype('float32')")
    if w.chance(0.3):
        w.lines.append(f'{name} = pm.Data("{name}", {name})')
    return name, unit


def whole(w):
    """Return the name of a column of small whole numbers or truth values, and its unit."""
    dtype = w.pick("int8", "int16", "int32", "int64", "uint8", "bool")
    low, high = (0, 2) if dtype == "bool" else (0, 5) if dtype[0] == "u" else (-2, 4)
    name = w.array("k", f"rng.integers({low}, {high}, n).astype('{dtype}')")
    if w.chance(0.3):
        w.lines.append(f'{name} = pm.Data("{name}", {name})')
    return name, "1.0"


def column(w):
    return whole(w) if w.chance(0.25) else real(w)


def prior(w, unit="1.0", shape=""):
    """Return a coefficient of a column in some unit."""
    scale = f"1 / {unit}"
    law = w.pick(
        f"Normal('{{name}}', 0, {scale}{shape})", f"Normal('{{name}}', 0, {scale}{shape})",
        f"StudentT('{{name}}', nu=4, mu=0, sigma={scale}{shape})", f"Cauchy('{{name}}', 0, {scale}{shape})",
        f"Laplace('{{name}}', 0, {scale}{shape})", f"Uniform('{{name}}', -3 / {unit}, 3 / {unit}{shape})",
        f"HalfNormal('{{name}}', {scale}{shape})", f"Flat('{{name}}'{shape})",
    )  # fmt: skip
    return w.variable("b", law)


def positive(w, unit="1.0"):
    """Return a scale in some unit."""
    law = w.pick(
        f"HalfNormal('{{name}}', {unit})", f"Exponential('{{name}}', scale={unit})", f"HalfCauchy('{{name}}', {unit})",
        f"Gamma('{{name}}', 3, 1 / {unit})", f"LogNormal('{{name}}', np.log({unit}), 0.5)",
    )  # fmt: skip
    return w.variable("s", law)


# Terms of a predictor, each of about one in size.


def product(w):
    k = int(w.rng.integers(1, 4))
    units = [w.unit() for _ in range(k)]
    as_array = f"np.array([{', '.join(units)}])"
    may_be_sparse = w.chance(0.3)
    if may_be_sparse:
        w.sparse, k = True, 8
        X = w.array("X", "np.where(rng.random((n, 8)) < 0.3, rng.normal(size=(n, 8)), 0.0)")
        b = w.variable("b", "Normal('{name}', 0, 1, shape=8)")
        return f"dot({X}, {b})"
    X = w.array("X", f"rng.normal(size=(n, {k})) * {as_array}")
    w.data.append(f"{X} = " + w.pick("{0}", "np.asfortranarray({0})", "{0}[:, ::-1][:, ::-1]", "mapped({0})").format(X))
    if w.chance(0.3):
        w.lines.append(f'{X} = pm.Data("{X}", {w.pick(X, f"pd.DataFrame({X})")})')
    else:
        w.lines.append(f"{X} = pt.as_tensor({X})")
    b = w.variable("b", f"Normal('{{name}}', 0, 1 / {as_array}, shape={k})")
    return w.pick(
        f"pt.dot({X}, {b})", f"{X} @ {b}", f"pm.math.dot({X}, {b})", f"({X} * {b}).sum(axis=1)",
        f"pt.einsum('ij,j->i', {X}, {b})", f"pt.dot({b}, {X}.T)", f"pm.math.dot({b}, {X}.T)",
        f"({b}[:, None] * {X}.T).sum(axis=0)", " + ".join(f"{b}[{j}] * {X}[:, {j}]" for j in range(k)),
        f"pt.dot({X}, {b}[:, None])[:, 0]", f"pt.sum(pt.stack([{b}[j] * {X}[:, j] for j in range({k})]), axis=0)",
    )  # fmt: skip


def elementwise(w):
    x, u = column(w)
    b = prior(w, u)
    return w.pick(f"{b} * {x}", f"{x} * {b}", f"{b} * {x} + 0.1 * ({b} * {x}) ** 2", f"pt.mul({b}, {x})")


def interaction(w):
    (x, u), (z, v) = column(w), column(w)
    return f"{prior(w, f'({u} * {v})')} * {x} * {z}"


def hinge(w):
    x, u = real(w)
    b = prior(w, u)
    knot = w.variable("t", f"Normal('{{name}}', 0, {u})") if w.chance(0.5) else f"0.3 * {u}"
    return w.pick(
        f"{b} * pt.maximum({x} - {knot}, 0)", f"pt.switch({x} > {knot}, {b} * ({x} - {knot}), 0)",
        f"pt.clip({b} * {x}, -0.5, 0.5)", f"pt.where(pt.gt({x}, {knot}), {b} * {x}, -{b} * {x})",
        f"pt.abs({b} * {x})", f"pt.switch({x} > {knot}, 0.5, {b} * {u})",
    )  # fmt: skip


def smooth(w):
    x, u = column(w)
    b = prior(w, u)
    inner = f"{b} * {x}"
    return w.pick(
        f"pt.tanh({inner})", f"pm.math.sigmoid({inner})", f"pt.log1p(pt.exp({inner}))", f"pt.sqrt(1 + ({inner}) ** 2)",
        f"pt.exp(-(({inner}) ** 2))", f"pt.log1p(({inner}) ** 2)", f"{inner} / (1 + pt.abs({inner}))",
    )  # fmt: skip


def effects(w):
    levels = int(w.rng.integers(2, 7))
    dtype = w.pick("int8", "int16", "int32", "int64", "uint8")
    g = w.array("g", f"rng.integers(0, {levels}, n).astype('{dtype}')")
    if w.chance(0.3):
        w.lines.append(f'{g} = pm.Data("{g}", {g})')
    form = w.rng.integers(6)
    if form == 0:
        u = w.variable("u", f"Normal('{{name}}', 0, {positive(w)}, shape={levels})")
    elif form == 1:
        z, s = w.variable("z", f"Normal('{{name}}', 0, 1, shape={levels})"), positive(w)
        u = w.value("u", f"pm.Deterministic('effect_{z}', {s} * {z})")
    elif form == 2:
        u = w.variable("u", f"ZeroSumNormal('{{name}}', 1.0, shape={levels})")
    elif form == 3:
        x, unit = real(w)
        chol = w.name("chol")
        w.lines.append(f"{chol}, _, _ = pm.LKJCholeskyCov('{chol}', n=2, eta=2, sd_dist=pm.HalfNormal.dist(1.0))")
        z = w.variable("z", f"Normal('{{name}}', 0, 1, shape=({levels}, 2))")
        u = w.value("u", f"pt.dot({z}, {chol}.T)")
        return f"{u}[{g}, 0] + {u}[{g}, 1] * ({x} / {unit})"
    elif form == 4:
        h = w.array("g", "rng.integers(0, 3, n)")
        u = w.variable("u", f"Normal('{{name}}', 0, 1, shape=({levels}, 3))")
        return f"{u}[{g}, {h}]"
    else:
        x, unit = real(w)
        u = w.variable("u", f"Normal('{{name}}', 0, 1 / {unit}, shape={levels})")
        return f"{u}[{g}] * {x}"
    return w.pick(f"{u}[{g}]", f"pt.take({u}, {g}, axis=0)")


def level(w):
    return prior(w)


def known(w):
    x, u = real(w)
    return f"{x} / {u}"


TERMS = (product, product, elementwise, elementwise, interaction, hinge, smooth, effects, effects, level, known)

#: What ties rows together: no batch of them has the sum of its terms for a part of the whole.
TIES = (
    "{0} - {0}.mean()", "pt.cumsum({0}) / n", "{0} / pt.sqrt(1 + ({0} ** 2).mean())", "pt.sort({0})",
    "{0} + pt.concatenate([[0.0], {0}[:-1]])", "pt.special.softmax({0}) + {0}", "{0} - pt.roll({0}, 1)",
    "{0} / {0}.shape[0]", "{0} - {0}.max()", "{0} + pt.cumsum({0}[::-1]) / n",
)  # fmt: skip


def predictor(w):
    """Return the name of a predictor of a few terms."""
    makers = [w.pick(*TERMS) for _ in range(w.rng.integers(1, 4))]
    if not set(makers) - {level, known}:
        makers.append(elementwise)
    terms = [make(w) for make in makers]
    eta = w.value("eta", " + ".join(f"({t})" for t in terms))
    if w.chance(0.15):
        w.lines.append(f"{eta} = pm.Deterministic('{eta}', {eta})")
    if w.chance(0.06) and w.tied is None:
        w.tied = eta
        w.lines.append(f"{eta} = " + w.pick(*TIES).format(eta))
    return eta
