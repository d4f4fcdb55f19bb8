"""Compiled programs, remembered by what they are: their equations, constants, device and settings.

Whatever makes a program is traced whenever it is asked for, so it is that of now: a global that is
read has changed, a cell was run again. Only where the equations are known is nothing compiled. What
JAX itself remembers within a trace stays: a `jax.jit` in a learner, or the body of a loop that is
one function object, is traced once, whatever globals it reads.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core as jex

from jonline._engine import jaxprs, primitives
from jonline._engine.exact import COMPILER_OPTIONS

MOST = 128  # that are kept; each has some 34 memory maps, of which a process may have 65 530

_kept: OrderedDict[Any, Any] = OrderedDict()  # what it is -> (what that refers to, executable)
_lock = threading.Lock()


class Origin(NamedTuple):
    """What a function is made of.

    Attributes:
      name: of the function.
      jaxprs: closed ones, which it evaluates.
      numbers: static ones, which it is a function of besides.
      out: what it returns, a pytree of ShapeDtypeStruct.
    """

    name: str
    jaxprs: tuple
    numbers: tuple
    out: Any


class Program(NamedTuple):
    """A compiled function.

    Attributes:
      call: the function.
      out: what it returns, a pytree of ShapeDtypeStruct.
    """

    call: Callable
    out: Any


def compiled(
    function: Callable, *args: Any, donate: Sequence[int] = (), origin: Origin | None = None
) -> Program:
    """Returns `function` compiled for arguments of the shapes, dtypes and devices of `args`.

    Args:
      function: of arrays.
      args: pytrees of arrays or ShapeDtypeStructs.
      donate: numbers of the arguments whose memory is given away.
      origin: what the function is made of; by default it is traced to see.

    Raises:
      TypeError: if the function has effects, such as printing.
    """
    if origin is None:
        closed, out = jax.make_jaxpr(function, return_shape=True)(*args)
        check_effects(names_of_effects(closed.jaxpr))
        origin = Origin("", (closed,), (), out)
    leaves, structure = jax.tree.flatten(args)
    sizes = np.cumsum([0, *(jax.tree.structure(arg).num_leaves for arg in args)])
    given = tuple(leaf for i in donate for leaf in range(sizes[i], sizes[i + 1]))
    shapes = tuple((np.shape(leaf), str(leaf.dtype)) for leaf in leaves)
    what = origin.name, jaxprs.digest(origin.jaxprs), origin.numbers
    key = what, given, shapes, _devices(leaves), settings()
    with _lock:
        _, found = _kept.get(key, (None, None))
    if found is None:

        def of_leaves(*leaves):
            return jax.tree.leaves(function(*jax.tree.unflatten(structure, leaves)))

        of_leaves.__name__ = origin.name or "program"  # what XLA calls it in a dump
        lowered = jax.jit(of_leaves, donate_argnums=given).lower(*leaves)
        found = lowered.compile(COMPILER_OPTIONS)
    with _lock:
        _kept[key] = origin.jaxprs, found
        _kept.move_to_end(key)
        while len(_kept) > MOST:
            _kept.popitem(last=False)
    tree = jax.tree.structure(origin.out)

    def call(*args):
        return jax.tree.unflatten(tree, found(*jax.tree.leaves(args)))

    return Program(call, origin.out)


def settings() -> tuple:
    """Returns all settings of JAX, those of this thread: any may change what is compiled."""
    values = jax.config.values
    return tuple(repr(getattr(jax.config, name, values[name])) for name in sorted(values))


def text_of(traced: Any) -> str:
    """Returns the SHA-256 of a traced function, lowered: the same in another process.

    Raises:
      ValueError: if it calls functions of the host, which nothing tells apart there.
    """
    found = hashlib.sha256(traced.lower().as_text().encode())
    for eqn in _equations(traced.jaxpr):
        if "callback" in eqn.params:
            raise ValueError(
                f"checkpoint must be None where a round has {eqn.primitive.name}: nothing tells "
                "whether a function of the host is the same when the sweep goes on"
            )
        for var in eqn.invars:
            if isinstance(var, jex.Literal) and np.ndim(var.val):  # may stand beside the text
                jaxprs.update(found, jaxprs.words_of_array(var.val))
    return found.hexdigest()


def names_of_effects(jaxpr: Any) -> tuple[str, ...]:
    """Returns the primitives of a program that do more than return a value."""
    found = [eqn for eqn in _equations(jaxpr) if eqn.effects and not [*primitives.bodies(eqn)]]
    return tuple(sorted({eqn.primitive.name for eqn in found}))


def without_effects(jaxpr: Any) -> Any:
    """Returns a jaxpr, closed or not, without what only has effects, such as printing."""
    if hasattr(jaxpr, "consts"):
        return jaxpr.replace(jaxpr=without_effects(jaxpr.jaxpr))
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.effects and [*primitives.bodies(eqn)]:
            params = jax.tree.map(
                lambda value: without_effects(value) if primitives.is_body(value) else value,
                eqn.params,
                is_leaf=primitives.is_body,
            )
            eqn = eqn.replace(params=params)
            left = (body.effects for body in primitives.bodies(eqn))
            eqn = eqn.replace(effects=set().union(*left))
        if not eqn.effects or eqn.outvars:
            eqns.append(eqn)
    return jaxpr.replace(eqns=eqns, effects=set().union(*(eqn.effects for eqn in eqns)))


def check_effects(names: Sequence[str]) -> None:
    """Raises TypeError if there are any effects, which a sweep would drop or repeat."""
    if names:
        raise TypeError(
            f"learner, environment and metrics must be pure, got {', '.join(names)}; a sweep plays "
            "rounds ahead and in many lanes. `trace` has such effects once in each round that it "
            "plays, `step` whenever it is called"
        )


def _equations(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        yield eqn
        for body in primitives.bodies(eqn):
            yield from _equations(body)


def _devices(leaves: Sequence[Any]) -> frozenset:
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
    default = jax.config.values["jax_default_device"] or jax.local_devices()[0]
    return frozenset({default}.union(*(leaf.devices() for leaf in arrays if leaf.committed)))
