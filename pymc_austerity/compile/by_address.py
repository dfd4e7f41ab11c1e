"""Compiled functions called by their addresses: the code that calls them is compiled once, for all models."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
from llvmlite import binding, ir
from numba import TypingError, types
from numba.extending import intrinsic
from xxhash import xxh3_128

from pymc_austerity.compile.cache import built_once, cached
from pymc_austerity.compile.code_key import NoKeyError, code_key
from pymc_austerity.compile.lean_njit import for_compiled_code, njit

try:  # where a compiled function lies, which numba has no public name for; without it functions are called as C does
    from numba.experimental.function_type import _get_jit_address as address_of
except ImportError:
    address_of = None

_NOT_LINKED = "A function of the model that nobody has linked."


class Reached(NamedTuple):
    """A compiled function and where it lies."""

    function: Callable[..., Any]  # kept, because the address is as good as the function lives
    address: int
    #: The C function around it, kept for the same reason, where the address is that of such a function.
    from_c: Any = None


def reach(function: Callable[..., Any], *arguments: types.Type) -> Reached:
    """Compile a function that `lean_njit.njit` has decorated for arguments of these types, and find it."""
    return reach_as_called(for_compiled_code(function), arguments)


def reach_as_called(function: Any, arguments: tuple[types.Type, ...]) -> Reached:
    """Compile a function that Python calls as well, so that it is compiled once for both, and find it."""
    cached(function)
    function.compile(arguments)
    returned = returned_by(function, arguments)
    if address_of is not None:
        return Reached(function, address_of(function, returned(*arguments)))
    pair = types.Tuple((returned, types.int64))

    @numba.cfunc(pair(types.Tuple(arguments)))
    def called(packed):  # type: ignore[no-untyped-def]
        return function(*packed), 1  # numba prints an error of a C function, and returns zeros

    return Reached(function, called.address, called)


def returned_by(function: Any, arguments: tuple[types.Type, ...]) -> types.Type:
    """Return the type of what a function returns that has been compiled for arguments of these types."""
    return next(s.return_type for s in function.nopython_signatures if s.args == tuple(arguments))


def _fits(typingctx: Any, given: types.Type, expected: types.Type) -> bool:
    """Whether values of one type can be taken for values of another: of a tuple numba itself asks for less."""
    if not isinstance(expected, types.BaseTuple):
        return typingctx.can_convert(given, expected) is not None
    if not isinstance(given, types.BaseTuple) or len(given) != len(expected):
        return False
    return all(_fits(typingctx, *pair) for pair in zip(given, expected, strict=True))


def _check(typingctx: Any, arguments: types.Type, taken: types.Type) -> None:
    if not _fits(typingctx, arguments, taken):
        raise TypingError(f"arguments {arguments} for a function that was compiled for {taken}")


@intrinsic
def _call_compiled(typingctx, address, result, expected, arguments):  # type: ignore[no-untyped-def]
    """Call what lies at an address with arguments of the expected types, as compiled code calls compiled code."""
    returned, taken = result.instance_type, expected.instance_type
    _check(typingctx, arguments, taken)

    def codegen(context, builder, signature, values):  # type: ignore[no-untyped-def]
        at, _, _, packed = values
        convention = context.call_conv  # numba's own, in which errors are returned
        with builder.if_then(builder.icmp_unsigned("==", at, at.type(0)), likely=False):
            convention.return_user_exc(builder, RuntimeError, (_NOT_LINKED,))
        pointer = builder.inttoptr(at, convention.get_function_type(returned, taken.types).as_pointer())
        unpacked = [builder.extract_value(packed, k) for k in range(len(taken.types))]
        status, value = convention.call_function(builder, pointer, returned, taken.types, unpacked)
        with builder.if_then(status.is_error, likely=False):
            convention.return_status_propagate(builder, status)
        return value

    return returned(types.int64, result, expected, taken), codegen


@intrinsic
def _call_c(typingctx, address, result, expected, arguments):  # type: ignore[no-untyped-def]
    """Call a C function at an address that returns the result and 1, or zeros after an error."""
    pair, taken = types.Tuple((result.instance_type, types.int64)), expected.instance_type
    _check(typingctx, arguments, taken)

    def codegen(context, builder, signature, values):  # type: ignore[no-untyped-def]
        of_c = ir.FunctionType(context.get_value_type(pair), [context.get_value_type(taken)])
        return builder.call(builder.inttoptr(values[0], of_c.as_pointer()), [values[3]])

    return pair(types.int64, result, expected, taken), codegen


@njit
def _call_checked(address, result, expected, arguments):  # type: ignore[no-untyped-def]
    if address == 0:
        raise RuntimeError(_NOT_LINKED)
    value, returned = _call_c(address, result, expected, arguments)
    if returned != 1:
        raise RuntimeError("A function of the model failed, for the reason that was printed above.")
    return value


#: ``call_at(address, result, expected, arguments)`` calls what `reach` has found, with a tuple of arguments.
call_at = _call_checked if address_of is None else _call_compiled


@cache
def build_call(result: types.Type, *taken: types.Type) -> Callable[..., Any]:
    """Compile ``call(address, *arguments)`` for functions that take these types and return that one."""
    expected = types.Tuple(taken)

    @njit
    def call(address, *arguments):  # type: ignore[no-untyped-def]
        return call_at(address, result, expected, arguments)

    return call


#: What `compile_apart` has compiled, by its symbol: code that calls it may live as long as the process.
_apart: dict[str, Reached] = {}


@intrinsic(prefer_literal=True)
def _address_of(typingctx, symbol):  # type: ignore[no-untyped-def]
    """Return where the function lies that is known to the linker by a symbol."""
    name = symbol.literal_value

    def codegen(context, builder, signature, values):  # type: ignore[no-untyped-def]
        declared = builder.module.globals.get(name)
        if declared is None:
            declared = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), []), name)
        return builder.ptrtoint(declared, context.get_value_type(types.int64))

    return types.int64(symbol), codegen


@built_once
def compile_apart(function: Callable[..., Any], *arguments: types.Type) -> Callable[..., Any]:
    """Compile a function for arguments of these types, and return a small one that calls it by its address.

    LLVM optimises a function again in everything that calls it, which takes minutes where several large functions call
    a larger one.  One that is compiled apart is optimised once, and its code is kept on disk for all who call it.
    """
    try:
        key = code_key(function)
    except NoKeyError:  # no other process would know it by a symbol
        return function
    reached = reach(function, *arguments)
    result, expected = returned_by(reached.function, arguments), types.Tuple(arguments)
    symbol = f"pymc_austerity_{xxh3_128(f'{key} {expected}'.encode()).hexdigest()}"
    binding.add_symbol(symbol, reached.address)
    _apart[symbol] = reached

    @njit
    def call(*given):  # type: ignore[no-untyped-def]
        return call_at(_address_of(symbol), result, expected, given)

    return call
