"""What a check says where a rule is broken."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@contextmanager
def rule(text: str, cure: str) -> Iterator[None]:
    """Adds to what is raised within which rule it breaks and what would mend it.

    Args:
      text: the rule, a sentence.
      cure: what a part that breaks it likely has to change.

    Raises:
      AssertionError: in place of any error within, with rule, what was found, and cure.
    """
    try:
        yield
    except Exception as error:
        found = str(error).strip() or traceback.extract_tb(error.__traceback__)[-1].line
        raise AssertionError(f"{text}\n\nfound: {found}\n\nlikely cure: {cure}") from error


def holds(condition: Any, found: str) -> None:
    """Raises AssertionError, which says what was found, unless a condition is true."""
    if not condition:
        raise AssertionError(found)


def at_most(smaller: Any, larger: Any, what: str) -> None:
    """Raises AssertionError, with the worst pair, unless smaller <= larger throughout."""
    smaller, larger = np.broadcast_arrays(smaller, larger)
    if not np.all(smaller <= larger):
        apart = np.nan_to_num(smaller - larger, nan=np.inf)
        worst = np.unravel_index(np.argmax(apart), apart.shape)
        raise AssertionError(f"not {what}: {smaller[worst]} and {larger[worst]} at {worst}")


def has_own_dtypes(tree: Any) -> None:
    """Raises AssertionError if a leaf is of a weak type, as a Python number is."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        weak = jnp.asarray(leaf).weak_type
        where = jax.tree_util.keystr(path) or "of the state"
        holds(not weak, f"leaf {where} has the weak type of a Python number")
