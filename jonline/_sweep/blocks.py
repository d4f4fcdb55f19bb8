"""How a sweep is cut into blocks of lanes: rectangles of seeds x points."""

import math
from typing import Any, NamedTuple

import numpy as np

from jonline import checks
from jonline._engine.exact import LANE_MULTIPLE

_MOST_TRIED = 1024
_MOST_LANES = 1 << 20  # of a block that is asked for


class Block(NamedTuple):
    """A rectangle of the sweep, of which the first `seeds` x `points` lanes are wanted.

    Attributes:
      seed, point: its first seed and point.
      seeds, points: how many of each it has; the rest of its sides is padding.
      sides: seeds and points with padding.
    """

    seed: int
    point: int
    seeds: int
    points: int
    sides: tuple[int, int]

    @property
    def where(self) -> tuple[slice, slice]:
        """Its place in arrays (points, seeds, ...)."""
        return (
            slice(self.point, self.point + self.points),
            slice(self.seed, self.seed + self.seeds),
        )

    def has(self, point: int, seed: int) -> bool:
        """Whether a run is one of its wanted lanes."""
        return (
            self.point <= point < self.point + self.points
            and self.seed <= seed < self.seed + self.seeds
        )

    def runs(self, lanes: Any) -> np.ndarray:
        """Takes (..., lanes) to (points, seeds, ...), without the padding."""
        values = np.asarray(lanes)
        values = values.reshape(*values.shape[:-1], *self.sides)
        values = values[..., : self.seeds, : self.points]
        return np.moveaxis(values, (-1, -2), (0, 1))


def shape(num_seeds: int, num_points: int, block: int | None, most: int) -> tuple[int, int]:
    """Returns the sides (seeds, points) of the blocks of a sweep: those that waste least.

    Args:
      num_seeds, num_points: sides of the sweep.
      block: lanes of a block, or None for any up to `most`.
      most: bound on the lanes of a block where `block` is None.

    Raises:
      TypeError, ValueError: as `checked`.
    """
    if block is not None:
        widths = [checked(block)]
    else:
        widths = [*range(LANE_MULTIPLE, min(most, _MOST_TRIED) + 1, LANE_MULTIPLE)]
        if most > _MOST_TRIED:
            widths.append(rounded_up(min(most, num_seeds * num_points)))

    def cost(sides: tuple[int, int]) -> tuple[int, int]:
        seeds, points = sides
        count = -(-num_points // points) * -(-num_seeds // seeds)
        return count * (seeds * points + LANE_MULTIPLE), -points

    return min(((w // p, p) for w in widths for p in _divisors(w)), key=cost)


def _divisors(width: int) -> list[int]:
    small = [p for p in range(1, math.isqrt(width) + 1) if width % p == 0]
    return sorted({*small, *(width // p for p in small)})


def checked(block: Any) -> int:
    """Returns `block` as a Python int.

    Raises:
      TypeError, ValueError: if it is no multiple of 16 in 16…2^20.
    """
    block = checks.at_least("block", block, LANE_MULTIPLE, _MOST_LANES)
    checks.require(block % LANE_MULTIPLE == 0, "block", f"be a multiple of {LANE_MULTIPLE}", block)
    return block


def cut(num_seeds: int, num_points: int, sides: tuple[int, int]) -> list[Block]:
    """Returns the blocks of a sweep, seeds outer, points inner."""
    return [
        Block(
            seed, point, min(sides[0], num_seeds - seed), min(sides[1], num_points - point), sides
        )
        for seed in range(0, num_seeds, sides[0])
        for point in range(0, num_points, sides[1])
    ]


def rounded_up(num_lanes: int) -> int:
    """Returns the next multiple of `LANE_MULTIPLE`."""
    return -(-num_lanes // LANE_MULTIPLE) * LANE_MULTIPLE
