"""A round's equations by stage, as text: what the engine makes of a learner and its environment."""

import itertools
import string
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from jonline._engine import block, stages
from jonline.core import Make, Metrics


def of_round(make: Make, metrics: Metrics, point: dict[str, Any], data: Any) -> str:
    """Returns the equations of a round, one a line, each under the stage that evaluates it.

    What is recomputed wherever it is read stands in each stage that reads it. A loop, a branch or a
    long list of parameters is left out of its line.

    Args:
      make, metrics, point, data: as for `jonline.run`.
    """
    plan = block.Plan(make, metrics, 1, 1, 1, block.ENDLESS)
    data = jax.tree.map(jnp.asarray, data)
    points = {name: jnp.asarray(value)[None] for name, value in point.items()}
    inputs = block.Inputs(data, jax.random.split(jax.random.key(0), 1), points)
    staged = block.stage_round(plan, inputs)
    trees = (("data", data), ("key", 0), ("t", 0), ("", point), ("", staged.carry))
    names: dict = dict(zip(staged.stages.zeros, ("-0.0", "own"), strict=True))
    for group, (top, tree) in zip(staged.stages.inputs, trees, strict=True):
        paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
        for var, path in zip(group, paths, strict=True):
            inside = jax.tree_util.keystr(path, simple=True, separator=".")
            names[var] = ".".join(filter(None, (top, inside)))
    fresh = _letters()
    lines = []
    for name in stages.ORDER:
        lines.append(f"{name}:")
        for eqn in getattr(staged.stages, name).eqns:
            for var in eqn.outvars:
                names.setdefault(var, next(fresh))
            lines.append(f"  {_line(eqn, names)}")
    return "\n".join(lines)


def _letters() -> Iterator[str]:
    """Yields a, b, …, z, aa, ab, …"""
    for length in itertools.count(1):
        yield from map("".join, itertools.product(string.ascii_lowercase, repeat=length))


def _line(eqn: Any, names: dict) -> str:
    made = ", ".join(f"{names[var]}:{var.aval.str_short(short_dtypes=True)}" for var in eqn.outvars)
    read = " ".join(_operand(var, names) for var in eqn.invars)
    return f"{made} = {eqn.primitive.name} {read}".rstrip()


def _operand(var: Any, names: dict) -> str:
    if isinstance(var, jex.Literal):
        return f"{np.asarray(var.val)}"
    return names.get(var, "constant")
