"""Peers in the benchmark: one bandit stream, played by jonline, river and Vowpal Wabbit.

The stream: the rows of `packaged.digits` scaled to length 1, in epochs of random order, 64
features and 10 classes; all contestants meet the same rows in the same order, observe only whether
their class was right, and explore with probability 0.1. The loss is the share of wrong classes of
what was played, exploration included, over the whole stream.

* "jonline, OSP": `structured.osp` with the inverse-weighted estimate of the paper; "semi-bandit"
  has that of the coordinate played, which learns from wrong answers also.
* "river": one `LogisticRegression` for each class, of which the one played learns.
* "Vowpal Wabbit": `--cb_explore 10`, by strings made ahead. A right answer costs -1, another 0.

The step size of each is the best on this stream of four, a factor of about 3 apart; with its
default, 0.5, Vowpal Wabbit is wrong in 29 % of 5 000 rounds instead of 22 %.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import jonline
from experiments.benchmark import contest
from experiments.benchmark.contest import Contestant, Target
from experiments.benchmark.structured import measure
from jonline import data as datasets
from jonline import optimizers, oracles, streams, structured
from jonline.data import packaged

EXPLORE = 0.1
LANES = {20: "20 lanes", 1: "1 lane"}
GRID = {"explore": np.asarray([EXPLORE]), "diameter": np.asarray([100.0])}
SPACE = structured.multiclass(10)
PACKAGES = {"river": "river", "Vowpal Wabbit": "vowpalwabbit"}
MISSING = "not installed (extra benchmark)"


def make_stream(num_rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows (T, 64) float32 in the order played, and their classes (T,) in 0…9."""
    digits = packaged.digits()
    x, y = np.asarray(digits.x), np.asarray(digits.y) - 1
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    epochs = [rng.permutation(len(x)) for _ in range(-(-num_rounds // len(x)))]
    order = np.concatenate(epochs)[:num_rounds]
    return x[order], y[order]


def make(way: str, point: dict[str, Any], data: Any):
    """Returns the learner and the environment; `way` is "OSP" or "semi-bandit"."""
    if way == "semi-bandit":
        estimator, oracle = structured.semi_bandit(SPACE), oracles.coordinates()
    else:
        estimator, oracle = structured.inverse_weighted(SPACE), oracles.mismatch()
    optimizer = optimizers.adaptive_ogd(point["diameter"])
    learner = structured.osp(
        SPACE, estimator, optimizer, num_features=data.x.shape[1], explore=point["explore"]
    )
    return learner, jonline.Environment(streams.one_pass(data, shuffle=False), oracle)


def river_player(x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    """Returns `() -> share of wrong classes` of river's models, epsilon-greedy."""
    from river import linear_model, optim

    rows = [{j: float(value) for j, value in enumerate(row) if value} for row in x]
    num_classes = int(y.max()) + 1

    def play():
        models = [
            linear_model.LogisticRegression(optimizer=optim.SGD(10.0)) for _ in range(num_classes)
        ]
        rng, wrong = np.random.default_rng(0), 0
        for row, label in zip(rows, y.tolist(), strict=True):
            if rng.random() < EXPLORE:
                drawn = int(rng.integers(num_classes))
            else:
                scores = [model.predict_proba_one(row)[True] for model in models]
                drawn = scores.index(max(scores))
            right = drawn == label
            models[drawn].learn_one(row, right)
            wrong += not right
        return wrong / len(rows)

    return play


def vowpal_player(x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    """Returns `() -> share of wrong classes` of Vowpal Wabbit."""
    import vowpalwabbit

    # names that are numbers would be taken for places, and those of two classes overlap
    rows = [
        "| " + " ".join(f"p{j}:{value:.6g}" for j, value in enumerate(row) if value) for row in x
    ]
    num_classes = int(y.max()) + 1

    def play():
        model = vowpalwabbit.Workspace(
            f"--quiet --cb_explore {num_classes} --epsilon {EXPLORE} --learning_rate 5"
        )
        rng, wrong = np.random.default_rng(0), 0
        for row, label in zip(rows, y.tolist(), strict=True):
            probs = model.predict(row)
            place, drawn = rng.random() * sum(probs), 0
            while drawn < num_classes - 1 and place >= probs[drawn]:
                place -= probs[drawn]
                drawn += 1
            right = drawn == label
            model.learn(f"{drawn + 1}:{-int(right)}:{probs[drawn]} {row}")
            wrong += not right
        model.finish()
        return wrong / len(rows)

    return play


def contestants(rounds: int, *, smoke: bool) -> list[Contestant]:
    """Returns what is timed on a stream of so many rounds; `missing` tells of the rest.

    A smoke run compiles one program only.
    """
    x, y = make_stream(rounds)
    constant = 1 - np.bincount(y).max() / len(y)
    data = datasets.Dataset(x, SPACE.encode(y + 1), name="digits")

    def entrant(name, lanes, play, *, compiles=True):
        return Contestant(name, lanes, rounds, 1, constant, play, compiles)

    def sweep(way, num_seeds):
        args = (partial(make, way), GRID, data, num_seeds, rounds, rounds)
        play = partial(contest.play_jonline, *args, measure=partial(measure, SPACE))
        return entrant(f"jonline, {way}, digits, {LANES[num_seeds]}", num_seeds, play)

    sweeps = [(way, num_seeds) for way in ("semi-bandit", "OSP") for num_seeds in LANES]
    players = {"river": river_player, "Vowpal Wabbit": vowpal_player}
    absent = missing()
    return [
        *(
            entrant(f"{name}, digits", 1, player(x, y), compiles=False)
            for name, player in players.items()
            if f"{name}, digits" not in absent
        ),
        *(sweep(*one) for one in sweeps[: 1 if smoke else None]),
    ]


def missing() -> list[str]:
    """Returns the contestants whose packages are not installed."""
    return [f"{name}, digits" for name, module in PACKAGES.items() if find_spec(module) is None]


def targets(ns: dict[str, float]) -> list[Target]:
    """Returns how many times as many rounds jonline plays as each peer; there is no bar."""
    return [
        Target(f"digits, {lanes} / {peer}", ns[theirs] / ns[ours], None, None)
        for peer in PACKAGES
        for lanes in LANES.values()
        if (theirs := f"{peer}, digits") in ns
        if (ours := f"jonline, semi-bandit, digits, {lanes}") in ns
    ]
