"""What users pass, checked before anything is built: a model, its variables, numbers, seeds, names of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, ParamSpec, TypeVar

import numpy as np
from pymc.model import Model, modelcontext
from pymc.util import get_random_generator
from pytensor.graph.basic import Variable

from pymc_austerity.argument_kinds import check_arguments, is_short, short, with_whole_numbers

P = ParamSpec("P")
Returned = TypeVar("Returned")
Described = TypeVar("Described")


def model_of(model: Any, caller: str) -> Model:
    """Return the model that was given, or that of the context; raise a TypeError, with the `caller`, for neither."""
    if isinstance(model, Model):
        return model
    if model is not None:
        raise TypeError(f"{caller} wants a pymc.Model as model=, and got {shown(model)}.")
    if Model.get_context(error_if_none=False) is None:
        raise TypeError(f"{caller} was called outside of a model. Call it within 'with model:', or pass model=.")
    return modelcontext(None)


def variables_of(variables: Any, model: Model, caller: str) -> list[Variable]:
    """Return free variables of a model, given as such or as their value variables, as their value variables.

    Raises TypeError for what is no variable, a name for example, and ValueError for a variable that is not a free
    variable of this model, or none at all.
    """
    if isinstance(variables, Variable | str) or not isinstance(variables, Iterable):
        variables = [variables]
    found = []
    free = [rv.name for rv in model.free_RVs]
    for variable in variables:
        value = model.rvs_to_values.get(variable) if isinstance(variable, Variable) else None
        if value is None and any(variable is known for known in model.value_vars):
            value = variable
        if value is not None and any(value is known for known in model.value_vars):
            found.append(value)
            continue
        if isinstance(variable, str):
            spelt = variable if variable in free else _closest(variable, free)
            remedy = f"Pass the variable: vars=[model[{spelt!r}]]." if spelt else f"The model has {free}."
            raise TypeError(f"{caller}: vars= has the name {variable!r}, and variables are wanted. {remedy}")
        if not isinstance(variable, Variable):
            remedy = " Pass it as model=, or leave it out within 'with model:'." if isinstance(variable, Model) else ""
            raise TypeError(f"{caller}: vars= wants free variables of the model, and got {shown(variable)}.{remedy}")
        raise ValueError(
            f"{caller}: vars= has {variable.name or variable}, which is not a free variable of this model. "
            f"Free are {free}."
        )
    if not found:
        choice = f"Choose from {free}." if free else "The model has no free variables."
        raise ValueError(f"{caller} has no variables to move. {choice}")
    if twice := sorted({value.name for value in found if found.count(value) > 1}):
        raise ValueError(f"{caller}: vars= has {twice} more than once. Name each variable once.")
    return found


def takes(**kinds: Any) -> Callable[[Callable[P, Returned]], Callable[P, Returned]]:
    """Check the arguments of a public function when it is called: their names, and their kinds by the annotations.

    `kinds`: from the name of an argument to a class that its value has to be of where it is not the default.
    """

    def decorate(function: Callable[P, Returned]) -> Callable[P, Returned]:
        described, caller = signature(function), function.__qualname__.split(".")[0]
        parameters = _named(described)
        annotations = {name: p.annotation for name, p in parameters.items()}

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> Returned:
            if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                check_names(caller, kwargs, list(parameters))
            given = bound(caller, described, args, kwargs)
            if isinstance(given.get("idata"), Model) and "model" in parameters:
                meant = f"{caller}(idata, {'' if list(parameters)[1] == 'model' else 'model='}model)"
                raise TypeError(f"{caller} wants the run first, and then a pymc.Model. Did you mean {meant}?")
            check_arguments(caller, given, annotations)
            for name, kind in kinds.items():
                if name in given and given[name] is not parameters[name].default and not isinstance(given[name], kind):
                    raise TypeError(f"{caller}: {name}={short(given[name])} must be a {kind.__name__}.")
            call = described.bind(*args, **kwargs)
            call.arguments.update(with_whole_numbers(call.arguments, annotations))
            return function(*call.args, **call.kwargs)

        return checked

    return decorate


def takes_fields(described: type[Described]) -> type[Described]:
    """Check the arguments of a public dataclass as `takes` does those of a function."""
    described.__init__ = takes()(described.__init__)  # type: ignore[method-assign]
    return described


def bound(caller: str, described: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name; raise a TypeError that says how it is called where some are missing."""
    try:
        return described.bind(*args, **kwargs).arguments
    except TypeError as error:
        named = (p.kind is p.KEYWORD_ONLY or p.default is not p.empty for p in _named(described).values())
        of_kind = (f"**{p.name}" if p.kind is p.VAR_KEYWORD else p.name for p in _named(described).values())
        usage = ", ".join(f"{name}=" if is_named else name for name, is_named in zip(of_kind, named))
        raise TypeError(f"{caller}: {error}. It is called as {caller}({usage}).") from None


def _named(described: Signature) -> dict[str, Parameter]:
    """Return the parameters that a caller names."""
    return {name: parameter for name, parameter in described.parameters.items() if name not in ("self", "cls")}


def check_names(caller: str, given: Iterable[str], names: Sequence[str], more: str = "") -> None:
    """Refuse an argument that there is not: with the one that may have been meant, all that there are, and `more`."""
    for name in given:
        if name not in names:
            raise TypeError(f"{caller} has no argument {name}=. {did_you_mean(name, names)}{more and f' {more}'}")


def check_seed(seed: Any, caller: str, argument: str = "rng") -> None:
    """Refuse what is neither a seed nor a generator."""
    try:
        get_random_generator(seed)
    except (TypeError, ValueError):
        raise TypeError(
            f"{caller}: {argument}={short(seed)} must be a whole number from 0 on, a numpy.random.Generator, or None."
        ) from None


def finite_values(argument: str, given: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Return values of unconstrained variables, whose `shapes` are those of all that there are, as arrays.

    Raises TypeError or ValueError for other names and shapes, and for what is not finite.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{argument} wants a dict of names and values, and got {shown(given)}.")
    values = {}
    for name, value in given.items():
        if name not in shapes:
            raise ValueError(
                f"{argument} has {name!r}, which is no unconstrained variable of the model. "
                f"{did_you_mean(str(name), list(shapes))} model.initial_point() has the values by default."
            )
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or array.shape != shapes[name] or not np.isfinite(array).all():
            raise ValueError(
                f"{argument} has {shown(value)} for {name!r}, and finite numbers of shape {shapes[name]} are "
                "wanted, as in model.initial_point()."
            )
        values[name] = array
    return values


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Return a sentence that names what may have been meant, and all choices."""
    if not names:
        return "It takes none."
    closest = _closest(name, names)
    return (f"Did you mean {closest}? " if closest else "") + f"Choose from {', '.join(names)}."


def shown(value: Any) -> str:
    """Return what was passed in a few words: its type, and itself where that is short."""
    if isinstance(value, type):
        return f"the class {value.__name__} in place of an object of it"
    kind, text = type(value).__name__, repr(value)
    return f"{kind} {text}" if is_short(text) else f"an object of type {kind}"


def _closest(name: str, names: Sequence[str]) -> str | None:
    transformed = [known for known in names if known.startswith(f"{name}_")]  # s_log__ for s
    return next(iter(get_close_matches(name, names, n=1) or transformed), None)
