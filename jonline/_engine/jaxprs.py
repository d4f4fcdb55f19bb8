"""Equations of a traced function: flattened, without repeats, and evaluated one by one."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from jonline._engine import primitives


def bind(eqn: Any, values: Sequence[Any]) -> list:
    """Evaluates one equation."""
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
    return list(out) if eqn.primitive.multiple_results else [out]


def is_float(aval: Any) -> bool:
    """Whether a value holds real floating numbers."""
    return jnp.issubdtype(aval.dtype, jnp.floating)


def read(env: dict, var: Any) -> Any:
    """The value of a variable or literal."""
    return var.val if isinstance(var, jex.Literal) else env[var]


def evaluate(eqns: Sequence[Any], env: dict) -> dict:
    """Returns `env` with the results of `eqns`, evaluated in order."""
    env = dict(env)
    for eqn in eqns:
        out = bind(eqn, [read(env, var) for var in eqn.invars])
        env.update(zip(eqn.outvars, out, strict=True))
    return env


def inlined(function: Any, *args: Any) -> jex.ClosedJaxpr:
    """Returns the equations of `function(*args)` with every call inlined."""
    return flat_jaxpr(function, *args)[0]


def flat_jaxpr(function: Any, *args: Any) -> tuple[jex.ClosedJaxpr, Any]:
    """Returns `inlined(function, *args)` and the tree of the result."""
    flat, tree = jax.tree.flatten(args)

    def of_leaves(*leaves):
        return function(*jax.tree.unflatten(tree, leaves))

    closed, out_shape = jax.make_jaxpr(of_leaves, return_shape=True)(*flat)
    flattened = jax.make_jaxpr(lambda *leaves: _inlined(closed.jaxpr, closed.consts, leaves))(*flat)
    return _without_repeats(flattened), jax.tree.structure(out_shape)


def _without_repeats(closed: jex.ClosedJaxpr) -> jex.ClosedJaxpr:
    """Computes once what several equations compute, `value(f, x)` in predict and update say."""
    seen: dict = {}
    same: dict = {}  # variable -> the earlier one with its value

    def renamed(var):
        return var if isinstance(var, jex.Literal) else same.get(var, var)

    def of_operand(var):
        if isinstance(var, jex.Literal):
            value = np.asarray(var.val)
            return value.dtype, value.shape, value.tobytes()
        return var

    def of_param(value):
        bodies = jax.tree.leaves(value, is_leaf=primitives.is_body)
        return digest(bodies) if bodies and all(map(primitives.is_body, bodies)) else value

    eqns = []
    for eqn in closed.jaxpr.eqns:
        eqn = eqn.replace(invars=[renamed(var) for var in eqn.invars])
        params = ((name, of_param(value)) for name, value in sorted(eqn.params.items()))
        key = (eqn.primitive, *map(of_operand, eqn.invars), *params)
        try:
            earlier = seen.setdefault(key, eqn) if not eqn.effects else eqn
        except TypeError:  # a parameter that cannot be compared
            earlier = eqn
        if earlier is eqn:
            eqns.append(eqn)
        else:
            same.update(zip(eqn.outvars, earlier.outvars, strict=True))
    outvars = [renamed(var) for var in closed.jaxpr.outvars]
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns, outvars=outvars))


def _inlined(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list:
    """Evaluates a jaxpr with its calls inlined."""
    env = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        values = [read(env, var) for var in eqn.invars]
        body = primitives.called(eqn)
        if body is None:
            out = bind(eqn, values)
        else:
            out = _inlined(getattr(body, "jaxpr", body), getattr(body, "consts", ()), values)
        env.update(zip(eqn.outvars, out, strict=True))
    return [read(env, var) for var in jaxpr.outvars]


def digest(jaxprs: Sequence[Any]) -> str:
    """Returns the SHA-256 of closed jaxprs: of each equation in full, and of the constants.

    Functions of the host count by identity, which holds as long as the jaxprs are referred to.
    """
    found = hashlib.sha256()
    for closed in jaxprs:
        update(found, _words(closed))
    return found.hexdigest()


def update(digest: Any, words: Iterator[str | bytes]) -> None:
    """Takes words into a digest."""
    for word in words:
        digest.update(word if isinstance(word, bytes) else word.encode() + b"\n")


def _words(jaxpr: Any) -> Iterator[str | bytes]:
    """Yields all that a jaxpr, closed or not, says; its variables are numbered as they come."""
    for value in getattr(jaxpr, "consts", ()):
        yield from words_of_array(value)
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    numbers: dict = {}

    def variable(var):
        return f"{numbers.setdefault(var, len(numbers))} {var.aval}"

    yield from map(variable, (*jaxpr.constvars, *jaxpr.invars))
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        yield repr(eqn.ctx)
        for var in eqn.invars:
            yield from words_of_array(var.val) if isinstance(var, jex.Literal) else (variable(var),)
        yield from map(variable, eqn.outvars)
        leaves, tree = jax.tree.flatten(eqn.params, is_leaf=primitives.is_body)
        yield repr(tree)
        for value in leaves:
            if primitives.is_body(value):
                yield from _words(value)
            elif callable(value) and any(map(primitives.is_body, leaves)):
                yield "function"  # whose equations the body is
            elif isinstance(value, (np.ndarray, jax.Array)):
                yield from words_of_array(value)
            else:
                yield repr(value)
    for var in jaxpr.outvars:
        yield from words_of_array(var.val) if isinstance(var, jex.Literal) else (variable(var),)


def words_of_array(value: Any) -> Iterator[str | bytes]:
    """Yields all that an array says."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        yield str(value.dtype)
        value = jax.random.key_data(value)
    array = np.asarray(value)
    yield f"{array.dtype} {array.shape}"
    yield array.tobytes()
