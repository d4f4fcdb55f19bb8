"""How many lanes a block has where nobody says."""

import jax
import jax.numpy as jnp
import numpy as np

from jonline import metrics
from jonline._engine.block import ENDLESS, Inputs, Plan, bytes_of_a_lane
from jonline._engine.program import LANE_MULTIPLE
from jonline._sweep import driver
from tests.games import K, N, make_dford, table


def test_bytes_of_a_lane_are_those_of_what_it_carries():
    plan = Plan(make_dford, metrics.ordinal, 1, 10, 4, ENDLESS)
    keys = jax.random.split(jax.random.key(0), 4)
    points = {"reg": jnp.ones(1), "explore": jnp.ones(1)}
    carried = N + (K - 1) + 1 + 1  # f, thresholds, round; the answers on their way
    inputs = Inputs(table(), keys, points)
    assert bytes_of_a_lane(plan, inputs) == 4 * carried


def test_block_is_what_the_cache_or_the_memory_holds(monkeypatch):
    class Device:
        platform = "gpu"

        def memory_stats(self):
            return {"bytes_limit": 100_000}

    job = driver.Job(
        make=make_dford,
        metrics=metrics.ordinal,
        grid={"reg": np.ones(40), "explore": np.ones(40)},
        num_points=40,
        keys=jax.random.split(jax.random.key(0), 50),
        data_on=lambda device: table(),
        record_every=10,
        num_windows=1,
        horizon=ENDLESS,
        state_bytes=4 * (N + K),
    )
    monkeypatch.setattr(jax, "device_put", lambda value, device: value)
    few = driver._most_lanes(job, [Device()])
    assert few % LANE_MULTIPLE == 0 and LANE_MULTIPLE <= few < 2000
    monkeypatch.setattr(Device, "memory_stats", lambda self: {"bytes_limit": 10**9})
    assert driver._most_lanes(job, [Device()]) == 2000
    monkeypatch.setattr(Device, "platform", "cpu")
    assert driver._most_lanes(job, [Device()]) == 256
    monkeypatch.setattr(driver, "_CPU_CACHE", 100 * 4 * (N + K))
    assert driver._most_lanes(job, [Device()]) == 96
