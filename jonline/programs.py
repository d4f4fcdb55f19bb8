"""Compiled programs, remembered by what they are: their text, their constants, their device.

A function is traced whenever a program of it is asked for, so it is the function as it is now: a
global that it reads has changed, a cell was run again. Only where the text of the traced program is
known is nothing compiled. What JAX itself remembers within a trace stays: a `jax.jit` in a learner,
or the body of a loop that is one function object, is traced once, whatever globals it reads.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core as jex

# The first keeps bits: reduces and dots by XLA's own code, whatever their size. The second keeps
# time: no copy of a buffer that is read and written in one round.
COMPILER_OPTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_cpu_copy_insertion_use_region_analysis": True,
}
MOST = (
    32  # programs that are kept; each has some 34 memory maps, of which a process may have 65 530
)
_OPTIMIZATION = (
    "jax_disable_most_optimizations",
    "jax_exec_time_optimization_effort",
    "jax_memory_fitting_effort",
    "jax_memory_fitting_level",
    "jax_optimization_level",
)

_kept: OrderedDict[Any, Any] = OrderedDict()
_lock = threading.Lock()


class Program(NamedTuple):
    """A compiled function.

    Attributes:
      call: the function.
      out: what it returns, a pytree of ShapeDtypeStruct.
    """

    call: Callable
    out: Any


def compiled(function: Callable, *args: Any, donate: Sequence[int] = ()) -> Program:
    """Returns `function` compiled for arguments of the shapes, dtypes and devices of `args`.

    Args:
      function: of arrays, traced here.
      args: pytrees of arrays or ShapeDtypeStructs.
      donate: numbers of the arguments whose memory is given away.

    Raises:
      TypeError: if the function has effects, such as printing.
    """
    trees = []
    structure = jax.tree.structure(args)
    sizes = np.cumsum([0, *(jax.tree.structure(arg).num_leaves for arg in args)])
    given = tuple(leaf for i in donate for leaf in range(sizes[i], sizes[i + 1]))

    def of_leaves(*leaves):
        leaves, tree = jax.tree.flatten(function(*jax.tree.unflatten(structure, leaves)))
        trees.append(tree)
        return leaves

    leaves = jax.tree.leaves(args)
    traced = jax.jit(of_leaves, donate_argnums=given).trace(*leaves)
    check_effects(names_of_effects(traced.jaxpr))
    lowered = traced.lower()
    known = digest(traced, lowered), optimization(), callbacks(traced.jaxpr)
    shapes = tuple((np.shape(leaf), str(leaf.dtype)) for leaf in leaves)  # also of unused ones
    key = (*known, given, shapes, _devices(leaves))
    with _lock:
        found = _kept.get(key)
    if found is None:
        found = lowered.compile(COMPILER_OPTIONS)
    with _lock:
        _kept[key] = found
        _kept.move_to_end(key)
        while len(_kept) > MOST:
            _kept.popitem(last=False)

    def call(*args):
        return jax.tree.unflatten(trees[0], found(*jax.tree.leaves(args)))

    return Program(call, jax.tree.unflatten(trees[0], traced.out_info))


def digest(traced: Any, lowered: Any) -> str:
    """Returns the SHA-256 of a lowered program: of its text and what stands beside it."""
    found = hashlib.sha256(lowered.as_text().encode())
    for eqn in _equations(traced.jaxpr):
        for var in eqn.invars:
            if isinstance(var, jex.Literal) and np.ndim(var.val):
                array = np.asarray(var.val)
                found.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()


def optimization() -> tuple:
    """Returns JAX's settings of how far programs are optimised, which their text does not show."""
    return tuple(jax.config.values.get(name) for name in _OPTIMIZATION)


def callbacks(jaxpr: Any) -> tuple:
    """Returns the host functions that a program calls: its text tells them by number alone."""
    return tuple(eqn.params["callback"] for eqn in _equations(jaxpr) if "callback" in eqn.params)


def names_of_effects(jaxpr: Any) -> tuple[str, ...]:
    """Returns the primitives of a program that do more than return a value."""
    found = [eqn for eqn in _equations(jaxpr) if eqn.effects and not [*_bodies(eqn)]]
    return tuple(sorted({eqn.primitive.name for eqn in found}))


def without_effects(jaxpr: Any) -> Any:
    """Returns a jaxpr, closed or not, without what only has effects, such as printing."""
    if hasattr(jaxpr, "consts"):
        return jaxpr.replace(jaxpr=without_effects(jaxpr.jaxpr))
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.effects and [*_bodies(eqn)]:
            params = jax.tree.map(
                lambda value: without_effects(value) if _is_body(value) else value,
                eqn.params,
                is_leaf=_is_body,
            )
            eqn = eqn.replace(params=params)
            eqn = eqn.replace(effects=set().union(*(body.effects for body in _bodies(eqn))))
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
        for body in _bodies(eqn):
            yield from _equations(body)


def _bodies(eqn: Any) -> Iterator[Any]:
    return filter(_is_body, jax.tree.leaves(eqn.params, is_leaf=_is_body))


def _is_body(value: Any) -> bool:
    return hasattr(value, "eqns")


def _devices(leaves: Sequence[Any]) -> frozenset:
    arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
    default = jax.config.values["jax_default_device"] or jax.local_devices()[0]
    return frozenset({default}.union(*(leaf.devices() for leaf in arrays if leaf.committed)))
