"""DRAL, DSAL and DSOL over whole runs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jonline import Environment, delays, oracles, reject, streams, trace
from tests.reject.games import LEARNERS, LINEAR, D, play, table

DATA = table(400)
POINTS = {"cost": [0.1, 0.25, 0.4, 0.25], "step_size": [0.1, 0.5, 0.02, 2.0]}


@pytest.mark.parametrize("options", [{}, {"project": True}, {"exact_gradient": True}])
def test_width_of_dral_moves_by_fixed_amounts(options):
    def make(point):
        return reject.dral(LINEAR, **point, **options)

    states, predictions, _, last = play(make, POINTS, DATA)
    width = np.concatenate([states.width, last.width[:, None]], 1)
    f = np.concatenate([states.f, last.f[:, None]], 1)
    moved, changed = np.diff(width, axis=1), np.any(np.diff(f, axis=1) != 0, axis=-1)
    ask = np.asarray(predictions.ask)
    assert not np.any(moved[~ask]) and not np.any(changed[~ask])
    assert not np.all(ask)
    cost, eta = (np.asarray(POINTS[name])[:, None] for name in ("cost", "step_size"))
    down, up, both = -eta * cost, eta * (1 - cost), eta * (1 - 2 * cost)
    is_down, is_up, is_both = (np.isclose(moved, step, atol=1e-5) for step in (down, up, both))
    if options == {"project": True}:
        assert np.all(width >= 0) and np.any(width == 0)
        is_down |= ask & (width[:, 1:] == 0)
    assert np.all(is_down | is_up | is_both | ~ask)
    assert np.any(is_both & ~is_down & ~is_up) == ("exact_gradient" in options)
    assert np.any(is_down) and np.any(is_up)
    if not options:
        assert np.any(width < 0)
        total = 1 + np.sum(is_down, 1) * down[:, 0] + np.sum(is_up, 1) * up[:, 0]
        np.testing.assert_allclose(last.width, total, atol=1e-3)  # rounding of 400 steps


@pytest.mark.parametrize("name", LEARNERS)
def test_projection_changes_no_run_whose_width_stays_positive(name):
    def run(project):
        return play(lambda p: LEARNERS[name](**p, project=project), POINTS, DATA)

    free, projected = run(False), run(True)
    stays = np.min(np.asarray(free[0].width), axis=1) >= 0
    assert np.any(stays) and np.all(projected[0].width >= 0)
    for a, b in zip(jax.tree.leaves(free), jax.tree.leaves(projected), strict=True):
        np.testing.assert_array_equal(a[stays], b[stays])


@pytest.mark.parametrize("name", LEARNERS)
def test_examples_turned_round_are_the_same_examples(name):
    turned = DATA._replace(x=-DATA.x, y=-DATA.y)
    states, predictions = play(lambda p: LEARNERS[name](**p), POINTS, DATA)[:2]
    mirrored, opposite = play(lambda p: LEARNERS[name](**p), POINTS, turned)[:2]
    np.testing.assert_array_equal(states.f, mirrored.f)
    np.testing.assert_array_equal(states.width, mirrored.width)
    np.testing.assert_array_equal(predictions.output, -opposite.output)


def test_dsol_is_dsal_that_always_asks():
    def state(learner, **oracle):
        return play(lambda p: learner(**p), POINTS, DATA, **oracle)

    dsol = state(LEARNERS["dsol"])
    asking = state(lambda **p: reject.always(LEARNERS["dsal"](**p)))
    told = state(LEARNERS["dsal"], oracle=oracles.label())
    for other in (asking, told):
        for a, b in zip(jax.tree.leaves(dsol[0]), jax.tree.leaves(other[0]), strict=True):
            np.testing.assert_array_equal(a, b)
    asks = np.sum(told[1].ask, axis=1)
    assert np.all(asks < len(DATA.y)) and np.all(dsol[1].ask)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_step_size_of_0_learns_nothing(name):
    def make(point):
        return LEARNERS[name](step_size=lambda t: 0.0 * t)

    *_, last = play(make, {"unused": [0.0]}, DATA)
    assert not np.any(last.f) and last.width == 1 and last.round == len(DATA.y)


def test_linear_schedule_is_the_step_of_the_paper():
    first, last, T = 0.5, 0.005, 100
    t = np.arange(1, T + 11)
    expected = np.maximum(last, first - (t - 1) * (first - last) / T)
    schedule = optax.linear_schedule(first, last, T)
    np.testing.assert_allclose(jax.jit(jax.vmap(schedule))(jnp.asarray(t - 1)), expected, rtol=1e-5)

    def make(point):
        scheduled = optax.linear_schedule(point["first"], point["first"] / 100, T)
        return reject.dral(LINEAR, cost=0.25, step_size=scheduled)

    states, _, feedback, _ = play(make, {"first": [0.5, 1.0]}, table(50))
    moved = np.diff(np.asarray(states.width), axis=1)
    rate = np.stack([expected, 2 * expected])[:, :49]
    fits = np.isclose(moved, -0.25 * rate, atol=1e-6) | np.isclose(moved, 0.75 * rate, atol=1e-6)
    learned = np.asarray(feedback.observed)[:, :-1]
    np.testing.assert_array_equal(fits, learned)
    assert np.sum(learned) > 20


@pytest.mark.parametrize("name", ["dral", "dsal"])
def test_delay_delivers_the_same_steps_later(name):
    """Asks of 20 rounds with a delay of 4: f and rho are the sums of the steps that came."""

    def make(point, data):
        environment = Environment(streams.resample(data), oracles.label_if_asked())
        return LEARNERS[name](), environment._replace(delay=delays.fixed(4))

    seen = trace(make, {}, data=DATA, key=0, first=0, last=20)
    z = seen.example.y * seen.prediction.score
    if name == "dral":
        in_z, in_width = reject.double_ramp_gradient(z, seen.prediction.width, D)
    else:
        in_z, in_width = reject.double_sigmoid_gradient(z, seen.prediction.width, D, 2.0)
    steps = -0.1 * np.asarray(in_z * seen.example.y)[:, None] * seen.example.x
    steps = np.where(seen.feedback.observed[:, None], steps, 0)
    width_steps = np.where(seen.feedback.observed, -0.1 * np.asarray(in_width), 0)
    for t in range(20):  # before round t the answers up to t - 5 have come
        came = slice(0, max(t - 4, 0))
        np.testing.assert_allclose(seen.state.f[t], steps[came].sum(0), atol=1e-6)
        np.testing.assert_allclose(seen.state.width[t], 1 + width_steps[came].sum(), atol=1e-6)
