"""Classes from inverse-weighted feedback without JAX: a plain NumPy loop, and a numba kernel.

Both play the same rounds, one run at a time, from the random words of `references.dford.draws`. The
gradient of a wrong answer is 0; it is a step like any other, unless they are told to skip it.

Source: arXiv:2502.18709, algorithm 1, read plainly.
"""

from typing import NamedTuple

import numba
import numpy as np

from experiments.benchmark.references.dford import draws, mix_one


class Table(NamedTuple):
    """Features x (N, n) float32 and outputs y (N, d) float32 of 0 and 1."""

    x: np.ndarray
    y: np.ndarray


class Setting(NamedTuple):
    """What a run can be told: `explore` q and `diameter` B."""

    explore: float
    diameter: float


def make_table(outputs: np.ndarray, n: int, *, num_rows: int = 4_000, noise: float = 0.5) -> Table:
    """Returns one cluster for each row of `outputs`, of ||x|| about 1, all equally frequent."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((len(outputs), n))
    which = rng.permutation(np.arange(num_rows) % len(outputs))
    x = (centres[which] + noise * rng.standard_normal((num_rows, n))) / np.sqrt(n * (1 + noise**2))
    return Table(x.astype(np.float32), outputs[which].astype(np.float32))


def classes_numpy(
    table: Table, setting: Setting, seed: int, num_rounds: int, *, skip: bool = False
) -> float:
    """Returns the share of wrong classes of one run, round by round in NumPy."""
    X, Y, K = table.x, table.y.argmax(axis=1), table.y.shape[1]
    rows, uniforms = draws(seed, num_rounds, len(X))
    q, B = setting
    W, squares, total = np.zeros((K, X.shape[1])), 0.0, 0
    for t in range(num_rounds):
        x, y = X[rows[t]].astype(float), Y[rows[t]]
        theta = W @ x
        mean = np.exp2(theta - theta.max())
        mean /= mean.sum()
        greedy = np.argmax(mean)
        p = min(1, 2 * (1 - mean[greedy]))  # ||e - mean||_1 is twice that, and nu = 2
        P = q / K + (1 - q) * p * mean
        P[greedy] += (1 - q) * (1 - p)
        drawn = min(np.searchsorted(np.cumsum(P), uniforms[t], side="right"), K - 1)
        total += drawn != y
        if skip and drawn != y:
            continue
        weight = (drawn == y) / P[drawn]
        mean[drawn] -= 1
        G = weight * np.outer(mean, x)
        squares += np.sum(G**2)
        if squares > 0:
            W -= B / np.sqrt(2 * squares) * G
    return total / num_rounds


@numba.njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _dot(a, b):
    total = np.float32(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@numba.njit(nogil=True, error_model="numpy")
def _classes(x, y, K, skip, seed, q, B, num_rounds):
    N, n = x.shape
    W, mean, P = np.zeros((K, n), np.float32), np.zeros(K, np.float32), np.zeros(K, np.float32)
    key = mix_one(np.uint32(np.uint32(seed) + np.uint32(0x9E3779B9)))
    zero, one, two = np.float32(0), np.float32(1), np.float32(2)
    squares, total = zero, 0
    for t in range(num_rounds):
        row = np.uint64(mix_one(mix_one(np.uint32(2 * t)) ^ key)) * np.uint64(N)
        row = row >> np.uint64(32)
        uniform = np.float32(mix_one(mix_one(np.uint32(2 * t + 1)) ^ key) >> np.uint32(8))
        uniform *= np.float32(2**-24)
        label, greedy = y[row], 0
        for k in range(K):
            mean[k] = _dot(W[k], x[row])
            if mean[k] > mean[greedy]:
                greedy = k
        top, mass = mean[greedy], zero
        for k in range(K):
            mean[k] = np.exp2(mean[k] - top)
            mass += mean[k]
        p = min(one, two * (one - one / mass))
        drawn, cumulative = K - 1, zero
        for k in range(K):
            mean[k] /= mass
            P[k] = q / np.float32(K) + (one - q) * p * mean[k]
            if k == greedy:
                P[k] += (one - q) * (one - p)
        for k in range(K):
            cumulative += P[k]
            if uniform < cumulative:
                drawn = k
                break
        total += drawn != label
        if skip and drawn != label:
            continue
        weight = one / P[drawn] if drawn == label else zero
        mean[drawn] -= one
        squares += weight * weight * _dot(mean, mean) * _dot(x[row], x[row])
        step = weight * B / np.sqrt(two * squares) if squares > zero else zero
        for k in range(K):
            push = step * mean[k]
            for j in range(n):
                W[k, j] -= push * x[row, j]
    return total / num_rounds


def classes_numba(
    table: Table, setting: Setting, seeds: int, num_rounds: int, *, skip: bool = False
) -> np.ndarray:
    """Returns the share of wrong classes (seeds,) of every run, played one after another."""
    y, K = table.y.argmax(axis=1), table.y.shape[1]
    q, B = map(np.float32, setting)
    played = [_classes(table.x, y, K, skip, k, q, B, num_rounds) for k in range(seeds)]
    return np.asarray(played)
