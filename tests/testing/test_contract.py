"""Every learner, stream and oracle of the package passes the contract checks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import Environment, hypotheses, kernels, metrics, oracles, ordinal, streams
from jonline.core import Example
from jonline.data.synthetic import ordinal as synthetic
from jonline.testing import Case, check_learner, check_oracle, check_stream

K, N = 5, 3


def table(num_rows=40):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, N)).astype(np.float32)
    return Example(x, rng.integers(1, K + 1, num_rows).astype(np.int32))


def case(learner, oracle, **point):
    def make(point, data):
        return learner(**point), Environment(streams.resample(data), oracle)

    return Case(make, point, table(), metrics.ordinal)


def dford(hypothesis=None, **options):
    hypothesis = hypotheses.linear(N) if hypothesis is None else hypothesis
    return lambda reg, explore, clip: ordinal.dford(
        hypothesis, K, reg=reg, explore=explore, clip=clip, **options
    )


LEARNERS = {
    "dford": case(dford(), oracles.directional(), reg=2.0, explore=0.5, clip=4.0),
    "dford, random start": case(
        dford(init="random", tie="<="), oracles.directional(), reg=2.0, explore=0.5, clip=4.0
    ),
    "dford, kernel": case(
        dford(hypotheses.kernel(kernels.gaussian(1.0), 20, N)),
        oracles.directional(),
        reg=2.0,
        explore=0.5,
        clip=4.0,
    ),
    "dford, monomials": case(
        dford(hypotheses.polynomial(N, degree=2, budget=20)),
        oracles.directional(),
        reg=2.0,
        explore=0.5,
        clip=4.0,
    ),
    "prank": case(
        lambda reg: ordinal.prank(hypotheses.linear(N), K, reg=reg), oracles.label(), reg=2.0
    ),
    "prank of 2001": case(lambda: ordinal.prank(hypotheses.linear(N), K), oracles.label()),
    "pril": case(
        lambda reg: ordinal.pril(hypotheses.linear(N), K, reg=reg), oracles.interval(K), reg=2.0
    ),
    "pril, unregularised": case(lambda: ordinal.pril(hypotheses.linear(N), K), oracles.interval(K)),
}


FAST = ("dford", "prank")  # the others are like these, and slow


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FAST else [pytest.mark.slow]) for n in LEARNERS]
)
def test_learner_keeps_the_contract(name):
    check_learner(LEARNERS[name])


STREAMS = {
    "resample": (streams.resample(table()), N),
    "one_pass": (streams.one_pass(table()), N),
    "epochs": (streams.epochs(table()), N),
    "crammer_singer": (synthetic.crammer_singer(), 2),
    "linear_teacher": (synthetic.linear_teacher(4, K), 4),
}


@pytest.mark.parametrize("name", STREAMS)
def test_stream_is_the_same_in_any_order(name):
    check_stream(*STREAMS[name])


ORACLES = {
    "label": oracles.label(),
    "noisy label": oracles.label(num_classes=K, noise=0.5),
    "interval": oracles.interval(K),
    "uniform interval": oracles.interval(K, ends=oracles.uniform_ends, fraction=0.5, noise=0.1),
    "directional": oracles.directional(),
    "noisy directional": oracles.directional(noise=0.5),
}


@pytest.mark.parametrize("name", ORACLES)
def test_oracle_is_pure_and_reads_the_output_alone(name):
    learner = dford()(2.0, 0.5, 4.0)
    prediction = learner.predict(learner.init(jax.random.key(0)), jnp.ones(N), jax.random.key(1))
    check_oracle(ORACLES[name], jnp.int32(3), prediction)
