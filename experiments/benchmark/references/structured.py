"""Online structured prediction without JAX: plain NumPy loops, and a numba kernel.

* `classes_numpy`, `classes_numba`: classes from inverse-weighted feedback, one run at a time. They
  play the same rounds, from the random words of `_reference.draws`. The gradient of a wrong answer
  is 0; it is a step like any other, unless they are told to skip it.
* `outputs_numpy`: subsets and rankings from pseudo-inverse feedback, in a `Space`.

Source: arXiv:2502.18709, algorithms 1 and 2, read plainly.
"""

from collections.abc import Callable
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


class Space(NamedTuple):
    """What `outputs_numpy` knows of outputs; as in `jonline.structured.OutputSpace`.

    `overlap` is <output, y> from the target loss, and `solve` of (P, output) is P^+ output.
    """

    mean: Callable
    nearest: Callable
    decompose: Callable
    distance: Callable
    least: float
    draw_uniform: Callable
    loss: Callable
    overlap: Callable
    moment: np.ndarray
    solve: Callable


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


def outputs_numpy(
    space: Space, table: Table, setting: Setting, seed: int, num_rounds: int
) -> float:
    """Returns the mean target loss of one run, round by round in NumPy."""
    q, B = setting
    rng = np.random.default_rng(seed)
    W = np.zeros((table.y.shape[1], table.x.shape[1]))
    squares, total = 0.0, 0.0
    for _ in range(num_rounds):
        row = rng.integers(len(table.x))
        x, y = table.x[row].astype(float), table.y[row].astype(float)
        mean = space.mean(W @ x)
        nearest = space.nearest(mean)
        p = min(1, 2 * space.distance(nearest, mean) / space.least)
        atoms, weights = space.decompose(mean)
        if rng.random() < q:
            output = space.draw_uniform(rng)
        elif rng.random() >= p:
            output = nearest
        else:
            place = np.searchsorted(np.cumsum(weights), rng.random(), side="right")
            output = atoms[min(place, len(atoms) - 1)]
        loss = space.loss(output, y)
        total += loss

        drawn = (1 - p) * np.outer(nearest, nearest) + p * (atoms.T * weights) @ atoms
        P = q * space.moment + (1 - q) * drawn
        label = space.solve(P, output) * space.overlap(loss)
        G = np.outer(mean - label, x)
        squares += np.sum(G**2)
        W -= B / np.sqrt(2 * squares) * G
    return total / num_rounds


def subsets(d: int, m: int) -> Space:
    """Returns the m-subsets of d labels: Hamming loss, and P inverted by `np.linalg.solve`."""
    both = m * (m - 1) / (d * (d - 1))

    def mean(theta):
        places = np.sort(np.concatenate((theta - 1, theta)))
        sums = np.clip(theta - places[:, None], 0, 1).sum(axis=1)
        return np.clip(theta - np.interp(-m, -sums, places), 0, 1)

    def top(values):
        output = np.zeros(d)
        output[np.argsort(-values)[:m]] = 1
        return output

    def decompose(point):  # systematic sampling
        ends = np.minimum(np.append(0, np.cumsum(point)), m)
        ends[-1] = m
        starts = np.unique(np.round(ends[:-1], 12) % 1)  # equal but for rounding is equal
        weights = np.diff(np.append(starts, 1))
        middle = starts + weights / 2
        return np.diff(np.ceil(ends - middle[:, None]), axis=1), weights

    return Space(
        mean=mean,
        nearest=top,
        decompose=decompose,
        distance=lambda output, point: np.linalg.norm(output - point),
        least=np.sqrt(2),
        draw_uniform=lambda rng: top(rng.random(d)),
        loss=lambda output, y: np.mean(output != y),
        overlap=lambda loss: m - loss * d / 2,
        moment=np.full((d, d), both) + (m / d - both) * np.eye(d),
        solve=np.linalg.solve,
    )


def rankings(m: int) -> Space:
    """Returns the rankings of m items: share of misplaced ones, and P inverted by `pinv`."""
    from scipy.optimize import linear_sum_assignment

    same, other = np.eye(m), 1 - np.eye(m)

    def mean(theta):  # Sinkhorn
        P = np.exp(theta - theta.max()).reshape(m, m)
        for _ in range(1000):
            P /= P.sum(axis=0)
            rows = P.sum(axis=1, keepdims=True)
            P /= rows
            if np.abs(rows - 1).max() < 1e-6:
                break
        return P.ravel()

    def nearest(point):
        output = np.zeros((m, m))
        output[linear_sum_assignment(point.reshape(m, m), maximize=True)] = 1
        return output.ravel()

    def decompose(point):  # Birkhoff and von Neumann
        left, atoms, weights = point.reshape(m, m).copy(), [], []
        while len(atoms) <= (m - 1) ** 2 and left.max() > 1e-6:
            chosen = linear_sum_assignment(np.log(np.maximum(left, 1e-30)), maximize=True)
            atom = np.zeros((m, m))
            atom[chosen] = 1
            weights.append(left[chosen].min())
            atoms.append(atom.ravel())
            left -= weights[-1] * atom
        return np.array(atoms), np.array(weights) / np.sum(weights)

    return Space(
        mean=mean,
        nearest=nearest,
        decompose=decompose,
        distance=lambda output, point: np.abs(output - point).sum(),
        least=4.0,
        draw_uniform=lambda rng: np.eye(m)[rng.permutation(m)].ravel(),
        loss=lambda output, y: 1 - output @ y / m,
        overlap=lambda loss: m * (1 - loss),
        moment=np.kron(same, same) / m + np.kron(other, other) / (m * (m - 1)),
        solve=lambda P, output: np.linalg.pinv(P, rcond=1e-9, hermitian=True) @ output,
    )
