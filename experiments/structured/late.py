"""What `osp_delay` plays: kinds of feedback, methods and their rates, streams, regret and slopes.

Source: arXiv:2502.18709, sections 4 and 5, appendices E to G.

Symbols: D delay, T rounds, B `diameter`, Cx `RADIUS`, Cy `EXTENT`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

import jonline
from experiments.shared.options import SharedOptions
from experiments.shared.records import Interval, mean_interval
from jonline import comparators, delays, optimizers, oracles, streams, structured
from jonline.core import Delay, Environment, Example
from jonline.sampling import uniform_index
from jonline.structured import theory

RADIUS, EXTENT = 1.0, float(np.sqrt(2))
FIXED, VARIABLE = "fixed", "uniform up to"
ODAFTRL, SOLID, BOLD, OGD = "ODAFTRL", "SOLID", "BOLD", "OGD, late"
STATIC = (ODAFTRL, BOLD)  # methods that have to know the one delay when they are compiled
HORIZONS = (8, 4, 2, 1)  # T is an eighth, a quarter, a half and all of the rounds
LATE = 10  # least delay from which slopes in D are taken; below it other losses prevail
LEAST = 1.0  # a regret below one loss counts as one where logarithms are taken


class Feedback(NamedTuple):
    """What is observed, and the task that it belongs to.

    Attributes:
      num_classes: K of the stream.
      diameter: B: so large that some model of the ball has nearly no surrogate loss, and with
        bandit feedback so small that the theory's exploration is below 1.
      estimator, oracle: `(space) -> ...`.
      rates: those of `structured.theory` by method; empty without exploration.
      methods: those played under a fixed delay; the ones of `VARIED` also under variable ones.
    """

    num_classes: int
    diameter: float
    estimator: Callable
    oracle: Callable
    rates: dict[str, Callable[..., float]]
    methods: tuple[str, ...]


LABELS, BIT, LOSS = "labels", "right or wrong", "loss"
ALL = (ODAFTRL, SOLID, BOLD, OGD)
VARIED = (SOLID, OGD)
FEEDBACKS: dict[str, Feedback] = {
    LABELS: Feedback(5, 60.0, structured.full_information, lambda space: oracles.label(), {}, ALL),
    BIT: Feedback(
        2,
        10.0,
        structured.inverse_weighted,
        lambda space: oracles.mismatch(),
        dict.fromkeys(ALL, theory.inverse_weighted_rate)
        | {SOLID: theory.solid_inverse_weighted_rate},
        ALL,
    ),
    LOSS: Feedback(
        2,
        10.0,
        structured.pseudo_inverse,
        lambda space: oracles.loss(space.target),
        {ODAFTRL: theory.pseudo_inverse_rate, SOLID: theory.solid_pseudo_inverse_rate},
        (ODAFTRL, SOLID),
    ),
}


def planted(num_classes: int, num_features: int, *, num_rows: int = 2000, spread: float = 0.05):
    """Returns a table of K clusters around the corners of a simplex, every row of norm 1."""
    rng = np.random.default_rng(0)
    corners = np.eye(num_classes, num_features) - 1 / num_classes
    corners[:, num_classes:] = 0
    corners /= np.linalg.norm(corners, axis=1, keepdims=True)
    label = np.arange(num_rows) % num_classes
    x = corners[label] + spread * rng.standard_normal((num_rows, num_features))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return Example(x.astype(np.float32), np.eye(num_classes, dtype=np.float32)[label])


def up_to(most: Any, max_rounds: int) -> Delay:
    """Returns delays drawn uniformly from 0…most, `most` a number of the grid <= `max_rounds`."""

    def sample(key, t):
        del t
        return uniform_index(jax.random.bits(key, (), np.uint32), most + 1)

    return Delay(sample, max_rounds, False)


def make(
    point: Mapping[str, Any], data: Example, *, feedback: str, method: str, kind: str, most: int
):
    """Returns a method at the point's `explore` and `delay`, which is `most` for a static one."""
    task = FEEDBACKS[feedback]
    space = structured.multiclass(task.num_classes)
    ogd = optimizers.adaptive_ogd(task.diameter, project=True)
    if method == ODAFTRL:
        optimizer = optimizers.odaftrl(task.diameter, delay=most)
    elif method == BOLD:
        optimizer = optimizers.bold(ogd, delay=most)
    elif method == SOLID:
        optimizer = optimizers.solid_ogd(
            task.diameter, gradient_bound=RADIUS * EXTENT, max_delay=point["delay"]
        )
    else:
        optimizer = ogd
    learner = structured.osp(
        space,
        task.estimator(space),
        optimizer,
        num_features=data.x.shape[1],
        explore=point["explore"],
    )
    if method in STATIC:
        late = delays.fixed(most)
    elif kind == FIXED:
        late = delays.fixed(point["delay"], max_rounds=most)
    else:
        late = up_to(point["delay"], most)
    return learner, Environment(streams.resample(data), task.oracle(space), late)


def grid(feedback: str, method: str, some: tuple[int, ...], num_rounds: int) -> dict[str, Any]:
    """Returns the points of a program: delays, and horizons T with the exploration for each.

    `formula` is what the rate gives, also above 1. Without exploration T is the whole run, of
    which every earlier round is the end of a shorter one.
    """
    task = FEEDBACKS[feedback]
    if not task.rates:
        none = np.zeros(len(some))
        horizon = np.full(len(some), num_rounds)
        return dict(delay=np.asarray(some), horizon=horizon, formula=none, explore=none)
    space, rows = structured.multiclass(task.num_classes), []
    for delay in some:
        for part in HORIZONS:
            T = num_rounds // part
            size = dict(diameter=task.diameter, radius=RADIUS, num_rounds=T, delay=delay)
            rows.append((delay, T, task.rates[method](space, **size, cut=np.inf)))
    delay, horizon, formula = (np.asarray(column) for column in zip(*rows, strict=True))
    explore = np.minimum(1.0, formula)
    return dict(delay=delay, horizon=horizon, formula=formula, explore=explore)


def comparator_losses(
    feedback: str, data: Example, options: SharedOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Returns S(U) up to each window, (seeds, windows), and the gaps (seeds,), U best in the ball.

    U is the best model of the examples of all rounds; one for each seed.
    """
    task = FEEDBACKS[feedback]
    space, stream = structured.multiclass(task.num_classes), streams.resample(data)
    curves, gaps = [], []
    for seed in range(options.seeds):
        shown = comparators.examples(stream, options.key, seed, options.rounds)
        best = comparators.best_linear(
            space.surrogate, shown, radius=task.diameter / 2, tolerance=1e-3
        )
        args = space.surrogate, best.params, shown, options.record_every
        curves.append(comparators.loss_curve(*args))
        gaps.append(best.gap)
    return np.asarray(curves), np.asarray(gaps)


def regret_of(result: jonline.SweepResult, losses: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Returns the expected surrogate regret, (points, seeds, windows) float64."""
    return comparators.surrogate_regret(result.records, *losses).expected


def slope(sizes: Any, regrets: np.ndarray, *, level: float = 0.95) -> Interval:
    """Returns the slope of ln regret in ln size, its mean and interval over seeds.

    Args:
      sizes: (points,) delays or numbers of rounds, > 0; two or more.
      regrets: (points, seeds); those below `LEAST` are taken as that.
    """
    x = np.log(np.asarray(sizes, np.float64))
    y = np.log(np.maximum(regrets, LEAST))
    x = x - x.mean()
    return mean_interval(x @ y / (x @ x), level=level)
