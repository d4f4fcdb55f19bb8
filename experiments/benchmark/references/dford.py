"""DFORD-linear without JAX: the plain NumPy loop, and numba kernels, for the benchmark.

All play the same rounds from the same counter-based random words, so that they can be held against
each other: a seed and a round number give a row of the table and one uniform number.

* `numpy_loop`: one run, as a paper's authors would write it.
* `numba_single`: one run at a time, scalar code.
* `numba_lanes`: all runs together, the lane axis innermost and contiguous, so that the compiler
  turns every inner loop into vector instructions.
"""

from typing import NamedTuple

import numba
import numpy as np

TILE = 256  # lanes whose state stays in the first-level cache


class Table(NamedTuple):
    """Features x (N, n) float32 and labels y (N,) int32 in 1…num_classes."""

    x: np.ndarray
    y: np.ndarray
    num_classes: int


class Lanes(NamedTuple):
    """The runs, each entry (L,): seed int32, and reg, explore, clip float32."""

    seed: np.ndarray
    reg: np.ndarray
    explore: np.ndarray
    clip: np.ndarray


def make_table(num_rows: int = 20_640, n: int = 8, num_classes: int = 10) -> Table:
    """Returns normal features with labels from a linear score plus noise, equally frequent."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((num_rows, n)).astype(np.float32)
    score = x @ rng.standard_normal(n) + 0.5 * rng.standard_normal(num_rows)
    edges = np.quantile(score, np.arange(1, num_classes) / num_classes)
    return Table(x, np.searchsorted(edges, score).astype(np.int32) + 1, num_classes)


def make_lanes(
    regs: np.ndarray, explores: np.ndarray, num_seeds: int, *, clip: float = 10.0
) -> Lanes:
    """Returns one lane for each point and seed, the seeds of a point next to each other."""
    num = len(regs) * num_seeds
    return Lanes(
        np.tile(np.arange(num_seeds, dtype=np.int32), len(regs)),
        np.repeat(regs, num_seeds).astype(np.float32),
        np.repeat(explores, num_seeds).astype(np.float32),
        np.full(num, clip, np.float32),
    )


def draws(seed: int, num_rounds: int, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows (T,) and the uniform numbers (T,) in [0, 1) of a run."""
    t = np.arange(num_rounds, dtype=np.uint32)
    key = _mix(np.full(1, seed, np.uint32) + np.uint32(0x9E3779B9))
    rows = (_mix(_mix(2 * t) ^ key).astype(np.uint64) * np.uint64(num_rows)) >> np.uint64(32)
    uniforms = (_mix(_mix(2 * t + np.uint32(1)) ^ key) >> np.uint32(8)).astype(np.float32)
    return rows.astype(np.int64), uniforms * np.float32(2**-24)


def _mix(word):
    """A bijective hash of 32-bit words; the casts keep numba from widening them."""
    word = np.uint32((word ^ (word >> np.uint32(16))) * np.uint32(0x21F0AAAD))
    word = np.uint32((word ^ (word >> np.uint32(15))) * np.uint32(0x735A2D97))
    return np.uint32(word ^ (word >> np.uint32(15)))


def numpy_loop(table: Table, lane: int, lanes: Lanes, num_rounds: int) -> float:
    """Returns the mean loss of one run, round by round in NumPy."""
    X, Y, K = table
    reg, explore, clip = lanes.reg[lane], lanes.explore[lane], lanes.clip[lane]
    rows, uniforms = draws(lanes.seed[lane], num_rounds, len(X))
    w, theta = np.zeros(X.shape[1]), np.zeros(K - 1)
    labels = np.arange(1, K + 1)
    total = 0
    for t in range(num_rounds):
        x, y = X[rows[t]], Y[rows[t]]
        f = w @ x
        below = np.flatnonzero(f - theta < 0)
        greedy = below[0] + 1 if len(below) else K
        total += np.sum(f < theta[: y - 1]) + np.sum(f >= theta[y - 1 :])

        weights = max(greedy, K + 1 - greedy) - np.abs(labels - greedy)
        P = explore * weights / weights.sum()
        P[greedy - 1] += 1 - explore
        drawn = min(np.searchsorted(np.cumsum(P), uniforms[t], side="right") + 1, K)

        direction = 1 if drawn < y else -1
        g_w, g_theta = reg * w, reg * theta
        if drawn < K and direction * (f - theta[drawn - 1]) <= 0:
            tau = direction / P[drawn - 1]
            g_w = g_w - tau * x
            g_theta[drawn - 1] += tau
        norm = np.sqrt(g_w @ g_w + g_theta @ g_theta)
        if norm > clip:
            g_w, g_theta = g_w * clip / norm, g_theta * clip / norm
        step = 1 / (reg * (t + 1))
        w, theta = w - step * g_w, theta - step * g_theta
    return total / num_rounds


mix_one = numba.njit(_mix)


@numba.njit(nogil=True, error_model="numpy")
def _single(x, y, K, seed, reg, explore, clip, num_rounds):
    N, n = x.shape
    w, theta = np.zeros(n, np.float32), np.zeros(K - 1, np.float32)
    key = mix_one(np.uint32(np.uint32(seed) + np.uint32(0x9E3779B9)))
    one = np.float32(1)
    total = 0
    for t in range(num_rounds):
        row = np.uint64(mix_one(mix_one(np.uint32(2 * t)) ^ key)) * np.uint64(N)
        row = row >> np.uint64(32)
        uniform = np.float32(mix_one(mix_one(np.uint32(2 * t + 1)) ^ key) >> np.uint32(8))
        uniform *= np.float32(2**-24)
        label = y[row]
        f = np.float32(0)
        for j in range(n):
            f += w[j] * x[row, j]
        greedy, ordered = 1, True
        for i in range(K - 1):
            above = f >= theta[i]
            ordered = ordered and above
            greedy += ordered
            total += above != (i < label - 1)

        peak = max(greedy, K + 1 - greedy)
        scale = explore / np.float32(peak + 2 * K * peak - peak * peak - K * (K + 1) // 2)
        drawn, cumulative, prob = K, np.float32(0), np.float32(0)
        for i in range(1, K + 1):
            prob = scale * np.float32(peak - abs(i - greedy))
            if i == greedy:
                prob += one - explore
            cumulative += prob
            if uniform < cumulative:
                drawn = i
                break

        sign = one if drawn < label else -one
        tau, at = np.float32(0), np.float32(0)
        if drawn < K:
            at = theta[drawn - 1]
            if sign * (f - at) <= 0:
                tau = sign / prob
        squares, sq_x = np.float32(0), np.float32(0)
        for j in range(n):
            squares += w[j] * w[j]
            sq_x += x[row, j] * x[row, j]
        for i in range(K - 1):
            squares += theta[i] * theta[i]
        # the norm of (reg w - tau x, reg theta + tau e), multiplied out
        sq_norm = reg * reg * squares + np.float32(2) * reg * tau * (at - f)
        sq_norm += tau * tau * (sq_x + one)
        shrink = clip / max(clip, np.sqrt(max(sq_norm, np.float32(0))))
        step = shrink / (reg * np.float32(t + 1))
        for j in range(n):
            w[j] -= step * (reg * w[j] - tau * x[row, j])
        for i in range(K - 1):
            theta[i] -= step * reg * theta[i]
        if drawn < K:
            theta[drawn - 1] -= step * tau
    return total / num_rounds


@numba.njit
def _vector(L):
    return np.zeros(L, np.float32)


@numba.njit(nogil=True, error_model="numpy")
def _tile(flat, y, K, n, seed, reg, explore, clip, num_rounds, total):
    N, L = np.uint64(len(y)), len(seed)
    w, xs = np.zeros((n, L), np.float32), np.zeros((n, L), np.float32)
    theta = np.zeros((K - 1, L), np.float32)
    base = np.zeros(L, np.uint64)
    key = np.zeros(L, np.uint32)
    uniform, label, f = _vector(L), _vector(L), _vector(L)
    sq_x, greedy, alive = _vector(L), _vector(L), _vector(L)
    peak, scale, drawn = _vector(L), _vector(L), _vector(L)
    prob, at, cumulative = _vector(L), _vector(L), _vector(L)
    squares, tau, step = _vector(L), _vector(L), _vector(L)
    zero, one, two = np.float32(0), np.float32(1), np.float32(2)
    for k in range(L):
        key[k] = mix_one(np.uint32(np.uint32(seed[k]) + np.uint32(0x9E3779B9)))
    for t in range(num_rounds):
        even, odd = mix_one(np.uint32(2 * t)), mix_one(np.uint32(2 * t + 1))
        for k in range(L):
            row = (np.uint64(mix_one(even ^ key[k])) * N) >> np.uint64(32)
            bits = np.int32(mix_one(odd ^ key[k]) >> np.uint32(8))
            uniform[k] = np.float32(bits) * np.float32(2**-24)
            base[k] = row * np.uint64(n)
            label[k] = y[row]
            f[k], sq_x[k], squares[k] = zero, zero, zero
            greedy[k], alive[k] = one, one
        for j in range(n):
            for k in range(L):
                value = flat[base[k] + np.uint64(j)]
                xs[j, k] = value
                f[k] += w[j, k] * value
                sq_x[k] += value * value
                squares[k] += w[j, k] * w[j, k]
        for i in range(K - 1):
            rank = np.float32(i + 1)
            for k in range(L):
                above = one if f[k] >= theta[i, k] else zero
                alive[k] *= above
                greedy[k] += alive[k]
                wanted = one if rank < label[k] else zero
                total[k] += np.int32(1) if above != wanted else np.int32(0)
                squares[k] += theta[i, k] * theta[i, k]
        count, half = np.float32(2 * K + 1), np.float32(K * (K + 1) // 2)
        for k in range(L):
            peak[k] = max(greedy[k], np.float32(K + 1) - greedy[k])
            scale[k] = explore[k] / (peak[k] * (count - peak[k]) - half)
            cumulative[k] = zero
        for i in range(K):
            rank = np.float32(i + 1)
            for k in range(L):
                mass = scale[k] * (peak[k] - abs(rank - greedy[k]))
                mass += one - explore[k] if rank == greedy[k] else zero
                reached = uniform[k] >= cumulative[k]
                drawn[k] = rank if reached else drawn[k]
                prob[k] = mass if reached else prob[k]
                cumulative[k] += mass
        for i in range(K - 1):
            rank = np.float32(i + 1)
            for k in range(L):
                at[k] = theta[i, k] if rank == drawn[k] else at[k]
        last = np.float32(K)
        for k in range(L):
            sign = one if drawn[k] < label[k] else -one
            hit = (sign * (f[k] - at[k]) <= zero) & (drawn[k] < last)
            tau[k] = sign / prob[k] if hit else zero
            # the norm of (reg w - tau x, reg theta + tau e), multiplied out
            sq_norm = reg[k] * (reg[k] * squares[k] + two * tau[k] * (at[k] - f[k]))
            sq_norm += tau[k] * tau[k] * (sq_x[k] + one)
            shrink = clip[k] / max(clip[k], np.sqrt(max(sq_norm, zero)))
            step[k] = shrink / (reg[k] * np.float32(t + 1))
        for j in range(n):
            for k in range(L):
                w[j, k] -= step[k] * (reg[k] * w[j, k] - tau[k] * xs[j, k])
        for i in range(K - 1):
            rank = np.float32(i + 1)
            for k in range(L):
                push = tau[k] if rank == drawn[k] else zero
                theta[i, k] -= step[k] * (reg[k] * theta[i, k] + push)


def numba_single(table: Table, lanes: Lanes, num_rounds: int) -> np.ndarray:
    """Returns the mean loss (L,) of every run, played one after another."""
    played = [_single(*table, *lane, num_rounds) for lane in zip(*lanes, strict=True)]
    return np.asarray(played)


def numba_lanes(table: Table, lanes: Lanes, num_rounds: int) -> np.ndarray:
    """Returns the mean loss (L,) of every run, played side by side in tiles of lanes."""
    n = table.x.shape[1]
    flat, y = table.x.ravel(), table.y.astype(np.float32)
    total = np.zeros(len(lanes.seed), np.int32)
    for first in range(0, len(total), TILE):
        part = slice(first, first + TILE)
        tile = [entry[part] for entry in lanes]
        _tile(flat, y, table.num_classes, n, *tile, num_rounds, total[part])
    return total / num_rounds
