import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Delay, Environment, Learner, delays, oracles
from jonline._engine import rounds
from tests.games import Output, clock, logger, no_metrics

T = 40


def deliveries(table):
    """The rounds whose answers come within T rounds, in the order of their delivery."""
    due = np.arange(T) + table
    order = sorted((due[t], t) for t in range(T) if due[t] < T)
    return [t for _, t in order]


def played(delay, num_rounds=T):
    def make(point, data):
        return logger(T), Environment(clock(), oracles.label(), delay)

    return jonline.run(make, no_metrics, {}, num_rounds=num_rounds, key=0, record_every=num_rounds)


def check(result, table):
    expected = deliveries(table)
    assert result.states.count.item() == len(expected)
    np.testing.assert_array_equal(result.states.rounds[0, 0, : len(expected)], expected)
    assert result.undelivered.item() == T - len(expected)


@pytest.mark.parametrize("wait", [0, 1, 7, T - 1, T, 10**6])
def test_fixed_delay_delivers_each_answer_after_that_many_rounds(wait):
    check(played(delays.fixed(wait)), np.full(T, wait))


@pytest.mark.parametrize("seed", range(3))
def test_table_of_delays_is_delivered_in_the_right_rounds_oldest_first(seed):
    table = np.random.default_rng(seed).integers(0, [2, 9, 2 * T][seed], T)
    check(played(delays.table(table)), table)


def test_answers_that_come_together_are_delivered_in_the_order_asked():
    table = np.maximum(20 - np.arange(T), 0)  # all of rounds 0…20 come in round 20
    check(played(delays.table(table)), table)


def test_table_beyond_the_last_round_is_never_delivered():
    check(played(delays.table(np.full(T, 3 * T))), np.full(T, 3 * T))


@pytest.mark.parametrize("most", [1, 9])
def test_answers_that_never_come_are_left_out_and_counted(most):
    rng = np.random.default_rng(most)
    table = np.where(rng.random(T) < 0.4, -1, rng.integers(0, most, T))
    result = played(delays.table(table))
    expected = deliveries(np.where(table < 0, T, table))
    np.testing.assert_array_equal(result.states.rounds[0, 0, : len(expected)], expected)
    assert result.states.count.item() == len(expected)
    assert result.undelivered.item() == T - len(expected)


def test_answers_never_come_in_some_lanes():
    def make(point, data):
        wait = delays.fixed(point["wait"].astype(int), max_rounds=2)
        return logger(T), Environment(clock(), oracles.label(), delays.never(point["prob"], wait))

    grid = jonline.product_grid(prob=[0.0, 0.5, 1.0], wait=[0, 2])
    result = jonline.sweep(make, no_metrics, grid, num_rounds=T, num_seeds=2, key=0, record_every=T)
    np.testing.assert_array_equal(result.undelivered[:2], [[0, 0], [2, 2]])
    np.testing.assert_array_equal(result.undelivered[4:], np.full((2, 2), T))
    assert not result.states.count[4:].any()
    some = result.undelivered[2:4]
    assert np.all(np.abs(some - T / 2) <= 5 * np.sqrt(T / 4) + 1)
    np.testing.assert_array_equal(result.states.count + result.undelivered, np.full((6, 2), T))
    alone = result.states.rounds[3, 1, : result.states.count[3, 1]]
    assert np.all(np.diff(alone) > 0)  # a delay that is fixed keeps the order


def test_answers_that_never_come_take_no_room():
    sizes = []
    for num_rounds in (T, 1000 * T):
        made = logger(T), Environment(clock(), oracles.label(), delays.never(0.5, delays.fixed(3)))
        carry = jax.eval_shape(lambda: rounds.first_carry(made, jax.random.key(0), num_rounds))  # noqa: B023
        sizes.append([leaf.shape for leaf in jax.tree.leaves(carry.ring)])
    assert sizes[0] == sizes[1] and {shape[0] for shape in sizes[0]} == {4}


def test_ring_holds_no_answer_that_is_always_the_same():
    made = logger(T), Environment(clock(), oracles.label(), delays.fixed(3))
    carry = rounds.first_carry(made, jax.random.key(0), T)
    assert len(jax.tree.leaves(carry.ring)) == 4  # x, output, label, due


@pytest.mark.parametrize(
    ("delay", "error", "message"),
    [
        (delays.table(np.zeros(T - 1, int)), ValueError, "cover num_rounds=40, got 39 entries"),
        (3, TypeError, r"delay must be a Delay or None, got 3; delays.fixed\(3\)"),
        (Delay(lambda key, t: t, 2.5, True), TypeError, "max_rounds must be a Python int, got"),
        (Delay(lambda key, t: t, -1, True), ValueError, "max_rounds must be >= 0, got -1"),
        (Delay(lambda key, t: t, 2**31, True), ValueError, r"max_rounds must be < 2\^31 - 1"),
    ],
)
def test_bad_delay_is_an_error_before_tracing(delay, error, message):
    def make(point, data):
        learner = logger(T)._replace(init=lambda key: pytest.fail("was traced"))
        return learner, Environment(clock(), oracles.label(), delay)

    with pytest.raises(error, match=message):
        jonline.run(make, no_metrics, {}, num_rounds=T, key=0, record_every=T)
    with pytest.raises(error, match=message):
        jonline.trace(make, {}, key=0, first=T - 1, last=T)


def test_delays_of_a_run_do_not_depend_on_the_learner():
    table = []
    for _ in range(2):
        result = played(delays.uniform(5))
        table.append(result.states.rounds)
    np.testing.assert_array_equal(*table)
    waits = np.argsort(table[0][0, 0, : result.states.count.item()]) - np.arange(
        result.states.count.item()
    )
    assert waits.any(), "some answers overtake others"


def test_delay_in_the_grid_is_a_traced_hyperparameter():
    def make(point, data):
        delay = delays.fixed(point["wait"], max_rounds=T)
        return logger(T), Environment(clock(), oracles.label(), delay)

    grid = jonline.product_grid(wait=[0, 3, T])
    result = jonline.sweep(make, no_metrics, grid, num_rounds=T, num_seeds=2, key=0, record_every=T)
    np.testing.assert_array_equal(result.undelivered, [[0, 0], [3, 3], [T, T]])
    for i, wait in enumerate([0, 3, T]):
        expected = deliveries(np.full(T, wait))
        np.testing.assert_array_equal(result.states.rounds[i, 1, : len(expected)], expected)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (lambda s, *_: (s, s), "structure of init"),
        (lambda s, *_: s.astype(jnp.int32), "shape and dtype of state"),
        (lambda s, *_: jnp.stack([s, s]), "shape and dtype of state"),
    ],
)
def test_update_that_changes_the_form_of_the_state_is_an_error(update, message):
    def make(point, data):
        learner = Learner(
            init=lambda key: jnp.zeros(()),
            predict=lambda state, x, key: Output(jnp.int32(1)),
            update=update,
        )
        return learner, Environment(clock(), oracles.label())

    with pytest.raises(TypeError, match=message):
        jonline.run(make, no_metrics, {}, num_rounds=4, key=0, record_every=2)


@pytest.mark.parametrize("delay", [None, delays.fixed(1)])
def test_prediction_without_an_output_is_an_error(delay):
    def make(point, data):
        learner = logger(T)._replace(predict=lambda state, x, key: {"label": x})
        return learner, Environment(clock(), oracles.label(), delay)

    with pytest.raises(TypeError, match=r"predict must return .*\.output, got dict"):
        jonline.run(make, no_metrics, {}, num_rounds=T, key=0, record_every=T)


def test_trace_tells_how_many_answers_were_delivered():
    table = np.array([2, 1, 0, 5, 0, 0])

    def make(point, data):
        return logger(6), Environment(clock(), oracles.label(), delays.table(table))

    seen = jonline.trace(make, {}, key=0, first=1, last=6)
    np.testing.assert_array_equal(seen.delivered, [0, 3, 0, 1, 1])
    np.testing.assert_array_equal(seen.rounds, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(seen.state.count, [0, 0, 3, 3, 4])
    assert isinstance(seen.example.x, np.ndarray) and not isinstance(seen.example.x, jax.Array)
