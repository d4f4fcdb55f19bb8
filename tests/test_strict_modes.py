"""Every family runs where JAX is told to be strict: no hidden promotion, no NaN, no leaked tracer.

Promotions and leaks show while a round is traced, so all families are traced, and some are run.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jonline
from jonline import (
    Environment,
    comparators,
    delays,
    hypotheses,
    kernels,
    metrics,
    optimizers,
    oracles,
    ordinal,
    reject,
    streams,
    structured,
)
from jonline._engine import rounds
from jonline.core import Example
from jonline.data.synthetic import ordinal as synthetic
from jonline.data.synthetic import structured as synthetic_structured

K, N = 4, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, N)).astype(np.float32)
KEYS = RNG.random((32, 9))
CLASSES = Example(X, (1 + KEYS[:, :K].argmax(axis=1)).astype(np.int32))
SIGNS = Example(X, np.where(KEYS[:, 0] > 0.5, 1, -1).astype(np.int32))
LINEAR = hypotheses.linear(N)
COMPARATOR = ordinal.OrdinalState(np.ones(N, np.float32), np.arange(K - 1.0, dtype=np.float32), 0)
KERNELS = {
    "linear": LINEAR,
    "gaussian": hypotheses.kernel(kernels.gaussian(1.0), 3, N),
    "linear kernel": hypotheses.kernel(kernels.linear, 3, N, keep_norm=False),
    "polynomial kernel": hypotheses.kernel(kernels.polynomial(2), 3, N),
    "monomials": hypotheses.polynomial(N, degree=2),
    "monomials, budget": hypotheses.polynomial(N, degree=3, budget=3),
}


class Family(NamedTuple):
    """What is handed to `jonline.run`; `make` holds the data."""

    make: Callable
    metrics: Callable
    point: dict


def family(learner, oracle, data, measure, delay=None, stream=streams.resample, **point):
    def make(point, data_):
        del data_
        return learner(**point), Environment(stream(data), oracle, delay)

    return Family(make, measure, point)


def of_classes(learner, oracle, measure=metrics.ordinal, **rest):
    return family(learner, oracle, CLASSES, measure, **rest)


def dford(hypothesis=LINEAR, **options):
    return lambda **point: ordinal.dford(hypothesis, K, **(options | point))


DFORD = {"reg": 1.0, "explore": 0.5}
DIRECTIONAL = oracles.directional()
ORDINAL = {
    "dford": of_classes(dford(clip=2.0, init="random"), oracles.directional(noise=0.1), **DFORD),
    "dford, fixed norm": of_classes(
        dford(clip=2.0, clip_rule=ordinal.fix_norm, tie="<="), DIRECTIONAL, **DFORD
    ),
    "dford, late": of_classes(
        dford(clip=2.0), DIRECTIONAL, delay=delays.heavy_tailed(1.0, max_rounds=4), **DFORD
    ),
    "dford, regularised loss": of_classes(
        dford(),
        DIRECTIONAL,
        measure=ordinal.regularised_loss_metric(1.0, LINEAR, COMPARATOR),
        **DFORD,
    ),
    "prank": of_classes(lambda: ordinal.prank(LINEAR, K), oracles.label(num_classes=K, noise=0.1)),
    "prank, regularised": of_classes(
        lambda reg: ordinal.prank(LINEAR, K, reg=reg), oracles.label(), reg=1.0
    ),
    "pril": of_classes(
        lambda: ordinal.pril(LINEAR, K), oracles.interval(K, fraction=0.5, noise=0.1)
    ),
    "pril, regularised": of_classes(
        lambda reg: ordinal.pril(LINEAR, K, reg=reg),
        oracles.interval(K, ends=oracles.uniform_ends),
        reg=1.0,
    ),
    **{
        f"dford, {name}": of_classes(
            dford(hypothesis, clip=2.0 if name != "linear kernel" else None), DIRECTIONAL, **DFORD
        )
        for name, hypothesis in KERNELS.items()
    },
}

REJECT_POINT = {"cost": 0.2, "step_size": 0.5}


def of_signs(learner, oracle=None, measure=None, **rest):
    oracle = oracles.label_if_asked(noise=0.1) if oracle is None else oracle
    measure = reject.losses(0.2) if measure is None else measure
    return family(learner, oracle, SIGNS, measure, **rest)


def dral(hypothesis=LINEAR, **options):
    return lambda **point: reject.dral(hypothesis, **(options | point))


def dsal(**point):
    return reject.dsal(LINEAR, slope=2.0, **point)


REJECT = {
    "dral": of_signs(dral(), **REJECT_POINT),
    "dral, projected": of_signs(dral(project=True, exact_gradient=True), **REJECT_POINT),
    "dral, schedule": of_signs(dral(step_size=optax.linear_schedule(0.5, 0.1, 20)), cost=0.2),
    "dsal": of_signs(dsal, **REJECT_POINT),
    "dsol": of_signs(
        lambda **point: reject.dsol(LINEAR, slope=2.0, project=True, **point),
        oracles.label(),
        **REJECT_POINT,
    ),
    "always": of_signs(lambda **point: reject.always(dsal(**point)), **REJECT_POINT),
    "at random": of_signs(
        lambda rate, **point: reject.at_random(dsal(**point), rate), rate=0.5, **REJECT_POINT
    ),
    "budget": of_signs(
        lambda most, fraction, **point: reject.budget(
            dsal(**point), most=most, fraction=fraction, max_delay=2
        ),
        delay=delays.fixed(2),
        most=9,
        fraction=0.5,
        **REJECT_POINT,
    ),
    "local regret": of_signs(
        dsal, measure=reject.theory.local_regret(LINEAR, cost=0.2, slope=2.0), **REJECT_POINT
    ),
    **{
        f"dral, {name}": of_signs(dral(hypothesis), **REJECT_POINT)
        for name, hypothesis in KERNELS.items()
    },
}

SPACES = {
    "multiclass": (structured.multiclass(K), CLASSES.y),
    "multilabel": (structured.multilabel(K), KEYS[:, :K] > 0.5),
    "subsets": (structured.subsets(K, 2), KEYS[:, :K].argsort(axis=1).argsort(axis=1) < 2),
    "rankings": (structured.rankings(3), 1 + KEYS[:, :3].argsort(axis=1)),
}
ESTIMATORS = {
    "labels": (structured.full_information, lambda space: oracles.label()),
    "bit": (structured.inverse_weighted, lambda space: oracles.mismatch(noise=0.1)),
    "loss": (structured.pseudo_inverse, lambda space: oracles.loss(space.target, noise=0.1)),
    "loss, origin": (
        lambda space: structured.pseudo_inverse(space, origin=space.uniform_mean),
        lambda space: oracles.loss(space.target),
    ),
    "coordinates": (structured.semi_bandit, lambda space: oracles.coordinates()),
}
OPTIMIZERS = {
    "ogd": (lambda d: optimizers.adaptive_ogd(d, project=True, offset=1e-8), None),
    "ogd, free": (optimizers.adaptive_ogd, delays.uniform(2)),
    "solid": (
        lambda d: optimizers.solid_ogd(d, gradient_bound=2, max_delay=3),
        delays.geometric(0.5, max_rounds=3),
    ),
    "odaftrl": (lambda d: optimizers.odaftrl(d, delay=2), delays.fixed(2)),
    "odaftrl, scale": (lambda d: optimizers.odaftrl(d, delay=0, scale=2), None),
    "bold": (lambda d: optimizers.bold(optimizers.adaptive_ogd(d), delay=2), delays.fixed(2)),
    "optax": (
        lambda d: optimizers.from_optax(
            optax.adam(0.1), lambda W: optimizers.project_ball(W, d / 2)
        ),
        delays.table(np.arange(96) % 3),
    ),
}


def osp(space_name, estimator_name, optimizer_name, x=X):
    space, labels = SPACES[space_name]
    make_estimator, make_oracle = ESTIMATORS[estimator_name]
    optimizer, delay = OPTIMIZERS[optimizer_name]
    estimator = make_estimator(space)

    def learner(diameter, explore):
        return structured.osp(
            space, estimator, optimizer(diameter), num_features=x.shape[1], explore=explore
        )

    return family(
        learner,
        make_oracle(space),
        Example(x, space.encode(labels)),
        structured.losses(space, estimator),
        delay,
        diameter=4.0,
        explore=0.3,
    )


def gap(algorithm, surrogate, oracle):
    space = structured.multiclass(K)

    def learner(diameter, explore):
        return algorithm(K, N, diameter=diameter, explore=explore, loss=surrogate(K))

    return family(
        learner,
        oracle,
        Example(X, space.encode(CLASSES.y)),
        structured.losses(space._replace(surrogate=surrogate(K).loss)),
        diameter=4.0,
        explore=0.3,
    )


STRUCTURED = {
    **{
        f"osp, {space}, {estimator}": osp(space, estimator, "ogd")
        for space in SPACES
        for estimator in ESTIMATORS
    },
    **{f"osp, {name}": osp("subsets", "loss", name) for name in OPTIMIZERS},
    "osp, wide": osp("multiclass", "bit", "ogd", np.tile(X, 200)),
    "gaptron": gap(structured.gaptron, structured.logistic_gap, oracles.mismatch()),
    "gappletron": gap(structured.gappletron, structured.hinge_gap, oracles.mismatch()),
    "gaptron, labels": gap(structured.gaptron, structured.hinge_gap, oracles.label()),
    "gappletron, labels": gap(structured.gappletron, structured.logistic_gap, oracles.label()),
}


def teacher(stream, num_features, num_classes):
    learner = ordinal.prank(hypotheses.linear(num_features), num_classes)
    return Family(
        lambda point, data: (learner, Environment(stream, oracles.label())), metrics.ordinal, {}
    )


def structured_teacher(stream, space, num_features):
    learner = structured.osp(
        space,
        structured.full_information(space),
        optimizers.adaptive_ogd(4.0),
        num_features=num_features,
    )
    return Family(
        lambda point, data: (learner, Environment(stream, oracles.label())),
        structured.losses(space),
        {},
    )


STREAMS = {
    "one pass": of_classes(dford(), DIRECTIONAL, stream=streams.one_pass, **DFORD),
    "one pass, as stored": of_classes(
        dford(), DIRECTIONAL, stream=lambda data: streams.one_pass(data, shuffle=False), **DFORD
    ),
    "epochs": of_classes(dford(), DIRECTIONAL, stream=streams.epochs, **DFORD),
    "crammer_singer": teacher(synthetic.crammer_singer(), 2, 5),
    "linear_teacher": teacher(synthetic.linear_teacher(N, K, margin=0.1), N, K),
    "van_der_hoeven": structured_teacher(
        synthetic_structured.van_der_hoeven(K, 1, noise=0.1), structured.multiclass(K), 40
    ),
    "plackett_luce": structured_teacher(
        synthetic_structured.plackett_luce(3, N), structured.rankings(3), N
    ),
}

FAMILIES = ORDINAL | REJECT | STRUCTURED | STREAMS
RUN = ("dford, late", "budget", "osp, wide", "osp, bold", "gappletron")
FAST = RUN[:3]
MODES = {
    "rank promotion": partial(jax.numpy_rank_promotion, "raise"),
    "dtype promotion": partial(jax.numpy_dtype_promotion, "strict"),
    "leaks": jax.checking_leaks,
    "NaN": partial(jax.debug_nans, True),
}
PROMOTIONS = ("rank promotion", "dtype promotion")


def under(*modes):
    stack = ExitStack()
    for mode in modes:
        stack.enter_context(MODES[mode]())
    return stack


def begin_and_play(family, point, key):
    made = family.make(point, None)
    carry = rounds.first_carry(made, key, 96)
    return rounds.play_round(made, family.metrics, key, jnp.int32(0), carry)


def run(family):
    return jonline.run(
        family.make, family.metrics, family.point, num_rounds=32, key=3, record_every=16
    )


def step_twice(family):
    learner, environment = family.make(family.point, None)
    key = jax.random.key(0)
    example = environment.stream.draw(environment.stream.init(key), 0)
    answer = partial(environment.oracle, example.y)
    state = learner.init(key)
    for t in range(2):
        state, _ = jonline.step(learner, state, example.x, answer, jax.random.fold_in(key, t))
    return state


@pytest.mark.parametrize(
    "modes",
    [
        PROMOTIONS,
        *(pytest.param((mode,), marks=pytest.mark.slow) for mode in (*PROMOTIONS, "leaks")),
    ],
)
def test_every_family_is_traced(modes):
    with under(*modes):
        for family in FAMILIES.values():
            point = {
                name: np.asarray(value, np.int32 if isinstance(value, int) else np.float32)
                for name, value in family.point.items()
            }
            jax.eval_shape(partial(begin_and_play, family), point, jax.random.key(0))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FAST else pytest.mark.slow) for n in RUN]
)
def test_a_run_without_hidden_promotions(name):
    with under(*PROMOTIONS):
        assert not run(FAMILIES[name]).non_finite


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "name"),
    [(mode, name) for mode in MODES for name in (FAMILIES if mode == "NaN" else RUN)],
)
def test_a_run_in_each_mode(mode, name):
    jax.clear_caches()
    with under(mode):
        assert not run(FAMILIES[name]).non_finite


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_sweep_and_trace_in_each_mode(mode):
    family, settings = ORDINAL["dford, late"], dict(num_seeds=2, key=0, record_every=4)
    grid = {name: [value, value / 2] for name, value in family.point.items()}
    with under(mode):
        jonline.sweep(family.make, family.metrics, grid, num_rounds=8, **settings)
        jonline.trace(family.make, family.point, key=0, first=2, last=6)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SPACES)
def test_comparators_in_each_mode(name, mode):
    space, labels = SPACES[name]
    data = Example(X, space.encode(labels))
    with under(mode):
        shown = comparators.examples(streams.resample(data), 0, 0, 32)
        best = comparators.best_linear(space.surrogate, shown, radius=2.0)
        comparators.loss_curve(space.surrogate, best.params, shown, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_step_by_hand_in_all_modes(name):
    with under(*PROMOTIONS, "NaN"):
        step_twice(FAMILIES[name])


def test_sweeps_say_what_to_do_where_nothing_is_compiled():
    family = REJECT["dral"]
    settings = dict(num_rounds=4, key=0, record_every=2)
    calls = (
        partial(jonline.run, family.make, family.metrics, family.point, **settings),
        partial(jonline.sweep, family.make, family.metrics, {}, num_seeds=1, **settings),
        partial(jonline.trace, family.make, family.point, key=0, first=0, last=1),
        partial(comparators.examples, streams.resample(SIGNS), 0, 0, 4),
    )
    for call in calls:
        with jax.disable_jit(), pytest.raises(RuntimeError, match="jax_disable_jit must be unset"):
            call()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "dral" else pytest.mark.slow) for n in FAMILIES]
)
def test_a_step_where_nothing_is_compiled(name):
    with jax.disable_jit():
        state = step_twice(FAMILIES[name])
    for leaf in jax.tree.leaves(state):
        assert np.isfinite(leaf).all()
