"""Sets and rankings from the loss alone without JAX: a plain NumPy loop in float64.

Source: arXiv:2502.18709, algorithm 1 and section 3.4, read plainly: the mixture that outputs are
drawn from is written out, and its moments are inverted on the span of the outputs.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from experiments.benchmark.references.structured import Setting, Table


class Space(NamedTuple):
    """Outputs: the mean of scores, a mixture with a given mean, the nearest output and any."""

    nu: float
    norm: Callable[[np.ndarray], float]
    mean: Callable[[np.ndarray], np.ndarray]
    decompose: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    nearest: Callable[[np.ndarray], np.ndarray]
    draw: Callable[[np.random.Generator], np.ndarray]


def subsets(d: int, m: int) -> Space:
    """The m-subsets of d labels, by Euclidean projection and systematic sampling."""

    def mean(theta):
        ends = np.sort(np.concatenate([theta, theta - 1]))  # between which sums are linear
        sums = np.clip(theta - ends[:, None], 0, 1).sum(axis=1)
        i = np.searchsorted(-sums, -m, side="right") - 1
        share = (sums[i] - m) / (sums[i] - sums[i + 1])
        return np.clip(theta - ends[i] - share * (ends[i + 1] - ends[i]), 0, 1)

    def decompose(point):
        ends = np.concatenate([[0], np.cumsum(point * m / point.sum())])
        starts = np.unique(np.concatenate([[0], ends % 1]))
        weights = np.diff(np.append(starts, 1))
        middle = starts + weights / 2
        return np.diff(np.floor(ends + 1 - middle[:, None]), axis=1), weights

    def nearest(point):
        output = np.zeros(d)
        output[np.argsort(-point)[:m]] = 1
        return output

    def draw(rng):
        return nearest(rng.random(d))

    return Space(np.sqrt(2), np.linalg.norm, mean, decompose, nearest, draw)


def rankings(m: int) -> Space:
    """The permutations of m items, by Sinkhorn's iteration and Birkhoff's decomposition."""
    outputs = np.eye(m)[list(itertools.permutations(range(m)))].reshape(-1, m * m)

    def mean(theta):
        point = np.exp(theta - theta.max()).reshape(m, m)
        for _ in range(1000):
            point = point / point.sum(axis=1, keepdims=True)
            point = point / point.sum(axis=0, keepdims=True)
            if np.abs(point.sum(axis=1) - 1).max() < 1e-6:
                break
        return point.ravel()

    def nearest(point):
        return outputs[np.argmax(outputs @ point)]

    def decompose(point):
        left, atoms, weights = point.copy(), [], []
        for _ in range((m - 1) ** 2 + 1):
            atom = nearest(np.where(left > 1e-9, np.log(np.maximum(left, 1e-9)), -1e6))
            weight = left[atom > 0].min()
            if weight <= 1e-9:
                break
            left = left - weight * atom
            atoms.append(atom)
            weights.append(weight)
        return np.asarray(atoms), np.asarray(weights) / np.sum(weights)

    def draw(rng):
        return outputs[rng.integers(len(outputs))]

    return Space(4.0, lambda difference: np.abs(difference).sum(), mean, decompose, nearest, draw)


def play(
    space: Space,
    loss: tuple,
    moments: tuple[np.ndarray, np.ndarray],
    table: Table,
    setting: Setting,
    seed: int,
    num_rounds: int,
) -> float:
    """Returns the mean loss of one run, round by round.

    Args:
      space: the outputs.
      loss: V, b, e, c of L(y'; y) = <y', V y + b> + <e, y> + c.
      moments: mean and second moment of the uniform distribution.
      table, setting: as for the other references.
    """
    rng = np.random.default_rng(seed)
    (V, b, e, c), (of_uniform, second) = loss, moments
    cross = np.outer(V.T @ of_uniform, e)
    at_uniform = V.T @ second @ V + cross + cross.T + np.outer(e, e)
    values, vectors = np.linalg.eigh(at_uniform)
    basis = vectors[:, values > 1e-10 * values[-1]]
    at_uniform = basis.T @ at_uniform @ basis
    q, B = setting
    W, squares, total = np.zeros((table.y.shape[1], table.x.shape[1])), 0.0, 0.0
    for _ in range(num_rounds):
        row = rng.integers(len(table.x))
        x, y = table.x[row].astype(float), table.y[row].astype(float)
        point = space.mean(W @ x)
        nearest = space.nearest(point)
        p = min(1.0, 2 * space.norm(nearest - point) / space.nu)
        atoms, weights = space.decompose(point)
        atoms = np.concatenate([[nearest], atoms])
        weights = (1 - q) * np.concatenate([[1 - p], p * weights])
        if rng.random() < q:
            drawn = space.draw(rng)
        else:
            drawn = atoms[rng.choice(len(atoms), p=weights / weights.sum())]
        paid = drawn @ (V @ y + b) + e @ y + c
        total += paid
        rows = (atoms @ V + e) @ basis
        A = (rows * weights[:, None]).T @ rows + q * at_uniform
        direction = basis @ np.linalg.solve(A, (drawn @ V + e) @ basis)
        estimate = direction * (paid - drawn @ b - c)
        G = np.outer(point - estimate, x)
        squares += np.sum(G**2)
        if squares > 0:
            W -= B / np.sqrt(2 * squares) * G
    return total / num_rounds
