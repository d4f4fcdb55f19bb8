"""Kernel DFORD without JAX: the plain NumPy loop and a numba kernel, for the benchmark.

The score is f = sum_i c_i (1 + <x_i, .>)^3 over the last `budget` rounds, and the gradient is
clipped by a norm ||f||^2 that is kept by recursion. Both play the same rounds, from the random
words of `references.dford.draws`, one run at a time.
"""

import numba
import numpy as np

from experiments.benchmark.references.dford import Lanes, Table, draws, make_table, mix_one

PART = 64  # terms added up side by side: a few vectors
ALIGN = 16  # numbers of a cache line


def make_small_table() -> Table:
    """Returns a table of 4 177 rows, 10 features and 4 labels, with ||x|| around 1."""
    table = make_table(4_177, 10, 4)
    return table._replace(x=table.x / np.float32(np.sqrt(10)))


def kernel_numpy(table: Table, budget: int, lane: int, lanes: Lanes, num_rounds: int) -> float:
    """Returns the mean loss of one run, round by round in NumPy."""
    X, Y, K = table
    reg, explore, clip = lanes.reg[lane], lanes.explore[lane], lanes.clip[lane]
    rows, uniforms = draws(lanes.seed[lane], num_rounds, len(X))
    points, coefs = np.zeros((0, X.shape[1])), np.zeros(0)
    theta, labels = np.zeros(K - 1), np.arange(1, K + 1)
    sq_norm, total = 0.0, 0
    for t in range(num_rounds):
        x, y = X[rows[t]].astype(float), Y[rows[t]]
        f = coefs @ (1 + points @ x) ** 3
        below = np.flatnonzero(f - theta < 0)
        greedy = below[0] + 1 if len(below) else K
        total += np.sum(f < theta[: y - 1]) + np.sum(f >= theta[y - 1 :])

        weights = max(greedy, K + 1 - greedy) - np.abs(labels - greedy)
        P = explore * weights / weights.sum()
        P[greedy - 1] += 1 - explore
        drawn = min(np.searchsorted(np.cumsum(P), uniforms[t], side="right") + 1, K)

        direction, tau = 1 if drawn < y else -1, 0.0
        g_theta = reg * theta
        if drawn < K and direction * (f - theta[drawn - 1]) <= 0:
            tau = direction / P[drawn - 1]
            g_theta[drawn - 1] += tau
        at_itself = (1 + x @ x) ** 3
        sq_f = reg**2 * sq_norm - 2 * reg * tau * f + tau**2 * at_itself
        norm = np.sqrt(max(sq_f, 0) + g_theta @ g_theta)
        step = min(1, clip / norm if norm > 0 else 1) / (reg * (t + 1))
        theta = theta - step * g_theta

        keep, coef = 1 - step * reg, step * tau
        points, coefs = np.vstack((points, x)), np.append(keep * coefs, coef)
        sq_norm = keep**2 * sq_norm + 2 * keep * coef * f + coef**2 * at_itself
        if len(coefs) > budget:
            old, gone = points[0], coefs[0]
            if gone != 0:
                at_old = coefs @ (1 + points @ old) ** 3
                sq_norm += gone * (gone * (1 + old @ old) ** 3 - 2 * at_old)
            points, coefs = points[1:], coefs[1:]
    return total / num_rounds


@numba.njit
def _cube(value):
    return value * value * value


@numba.njit(nogil=True, error_model="numpy")
def _score(points, coefs, first, stop, x, values, sums):
    first = first // ALIGN * ALIGN  # terms outside first…stop-1 have coefficient 0
    num_parts = (stop - first + PART - 1) // PART
    held = num_parts * PART
    values[:held] = np.float32(1)
    for j in range(0, len(x), 2):  # two features per pass: half the stores
        A, B = points[j][first:], points[j + 1][first:]
        for i in range(held):
            values[i] += A[i] * x[j] + B[i] * x[j + 1]
    sums[:] = np.float32(0)
    weights = coefs[first:]
    for part in range(num_parts):
        for i in range(PART):
            sums[i] += weights[part * PART + i] * _cube(values[part * PART + i])
    half = PART // 2
    while half:
        for i in range(half):
            sums[i] += sums[half + i]
        half //= 2
    return sums[0]


@numba.njit(nogil=True, error_model="numpy")
def _kernel(x, y, K, budget, sparse, seed, reg, explore, clip, num_rounds):
    N, n = x.shape
    room = (2 * budget + 2 * PART) // ALIGN * ALIGN
    points, coefs = np.zeros((n, room), np.float32), np.zeros(room, np.float32)
    values, sums = np.zeros(room, np.float32), np.zeros(PART, np.float32)
    born, first, stop = np.zeros(room, np.int64), 0, 0  # the terms held are first…stop-1
    theta, old = np.zeros(K - 1, np.float32), np.zeros(n, np.float32)
    key = mix_one(np.uint32(np.uint32(seed) + np.uint32(0x9E3779B9)))
    zero, one, two = np.float32(0), np.float32(1), np.float32(2)
    sq_norm, total = zero, 0
    for t in range(num_rounds):
        row = np.uint64(mix_one(mix_one(np.uint32(2 * t)) ^ key)) * np.uint64(N)
        row = row >> np.uint64(32)
        uniform = np.float32(mix_one(mix_one(np.uint32(2 * t + 1)) ^ key) >> np.uint32(8))
        uniform *= np.float32(2**-24)
        label = y[row]
        f = _score(points, coefs, first, stop, x[row], values, sums)
        greedy, ordered = 1, True
        for i in range(K - 1):
            above = f >= theta[i]
            ordered = ordered and above
            greedy += ordered
            total += above != (i < label - 1)

        peak = max(greedy, K + 1 - greedy)
        scale = explore / np.float32(peak + 2 * K * peak - peak * peak - K * (K + 1) // 2)
        drawn, cumulative, prob = K, zero, zero
        for i in range(1, K + 1):
            prob = scale * np.float32(peak - abs(i - greedy))
            if i == greedy:
                prob += one - explore
            cumulative += prob
            if uniform < cumulative:
                drawn = i
                break

        sign = one if drawn < label else -one
        tau = zero
        if drawn < K and sign * (f - theta[drawn - 1]) <= 0:
            tau = sign / prob
        sq_x = one
        for j in range(n):
            sq_x += x[row, j] * x[row, j]
        sq_grad = reg * (reg * sq_norm - two * tau * f) + tau * tau * _cube(sq_x)
        sq_grad = max(sq_grad, zero)
        for i in range(K - 1):
            g = reg * theta[i] + (tau if i == drawn - 1 else zero)
            sq_grad += g * g
        step = clip / max(clip, np.sqrt(sq_grad)) / (reg * np.float32(t + 1))
        decay, coef = step * reg, step * tau
        for i in range(K - 1):
            theta[i] -= decay * theta[i] + (coef if i == drawn - 1 else zero)

        sq_norm -= decay * (two - decay) * sq_norm
        sq_norm += coef * (two * (one - decay) * f + coef * _cube(sq_x))
        for i in range(first, stop):
            coefs[i] -= decay * coefs[i]
        if first < stop and born[first] == t - budget:
            gone = coefs[first]
            if gone != zero:
                sq_old, x_old = one, one
                for j in range(n):
                    old[j] = points[j, first]
                    sq_old += old[j] * old[j]
                    x_old += x[row, j] * old[j]
                f_old = _score(points, coefs, first, stop, old, values, sums)
                f_old += coef * _cube(x_old)
                sq_norm = max(sq_norm - gone * (two * f_old - gone * _cube(sq_old)), zero)
            coefs[first] = zero
            first += 1
        if coef != zero or not sparse:
            for j in range(n):
                points[j, stop] = x[row, j]
            coefs[stop], born[stop] = coef, t
            stop += 1
        if stop == 2 * budget:  # back to the front
            held = stop - first
            for j in range(n):
                points[j, :held] = points[j, first:stop]
            coefs[:held], born[:held] = coefs[first:stop], born[first:stop]
            coefs[held:] = zero
            first, stop = 0, held
    return total / num_rounds


def kernel_numba(
    table: Table, budget: int, lanes: Lanes, num_rounds: int, *, sparse: bool = False
) -> np.ndarray:
    """Returns the mean loss (L,) of every run, played one after another.

    Args:
      sparse: hold only the terms with a coefficient, which say the same; else one for every round.
    """
    even = np.pad(table.x, ((0, 0), (0, table.x.shape[1] % 2)))
    table = table._replace(x=even)
    runs = zip(*lanes, strict=True)
    return np.asarray([_kernel(*table, budget, sparse, *lane, num_rounds) for lane in runs])
