"""How many lanes a block has where nobody says."""

import jax
import jax.numpy as jnp
import numpy as np

from jonline import metrics
from jonline._engine import block as engine
from jonline._sweep import driver as host
from tests.games import K, N, make_dford, table


def test_bytes_of_a_lane_are_those_of_what_it_carries():
    plan = engine.Plan(make_dford, metrics.ordinal, 1, 10, 4, engine.ENDLESS)
    keys = jax.random.split(jax.random.key(0), 4)
    points = {"reg": jnp.ones(1), "explore": jnp.ones(1)}
    carried = N + (K - 1) + 1 + 1  # f, thresholds, round; the answers on their way
    inputs = engine.Inputs(table(), keys, points)
    assert engine.bytes_of_a_lane(plan, inputs) == 4 * carried


def test_block_is_what_the_cache_or_the_memory_holds(monkeypatch):
    class Device:
        platform = "gpu"

        def memory_stats(self):
            return {"bytes_limit": 100_000}

    job = host.Job(
        make=make_dford,
        metrics=metrics.ordinal,
        grid={"reg": np.ones(40), "explore": np.ones(40)},
        num_points=40,
        keys=jax.random.split(jax.random.key(0), 50),
        data_on=lambda device: table(),
        record_every=10,
        num_windows=1,
        horizon=engine.ENDLESS,
        state_bytes=4 * (N + K),
    )
    monkeypatch.setattr(jax, "device_put", lambda value, device: value)
    few = host._most_lanes(job, [Device()])
    assert few % engine.WIDTH == 0 and engine.WIDTH <= few < 2000
    monkeypatch.setattr(Device, "memory_stats", lambda self: {"bytes_limit": 10**9})
    assert host._most_lanes(job, [Device()]) == 2000
    monkeypatch.setattr(Device, "platform", "cpu")
    assert host._most_lanes(job, [Device()]) == 256
    monkeypatch.setattr(host, "_CPU_CACHE", 100 * 4 * (N + K))
    assert host._most_lanes(job, [Device()]) == 96
