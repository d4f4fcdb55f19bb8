from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline._engine import jaxprs, primitives, stages
from jonline._engine.exact import exact

ORDER = ("shared", "seed", "lane", "draw", "round")
DATA = {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "shift": np.float32(0.5)}
KEY = jax.random.key(0)
TIME = jnp.int32(5)
POINT = {"reg": jnp.float32(2.0)}
CARRY = (jnp.ones(3), jnp.int32(1))
ARGS = (DATA, KEY, TIME, POINT, CARRY)


def played(function, *args):
    """Evaluates a round stage by stage, handing over only what each stage gives."""
    staged = stages.split(function, *args)
    known = staged.constants | dict.fromkeys(staged.zeros, jnp.float32(-0.0))
    for group, arg in zip(staged.inputs, args, strict=True):
        known.update(zip(group, jax.tree.leaves(arg), strict=True))
    for name in ORDER:
        stage = getattr(staged, name)
        inputs = {var: known[var] for var in (*staged.constants, *staged.zeros, *stage.inputs)}
        env = jaxprs.evaluate(stage.eqns, inputs)
        known.update((var, (inputs | env)[var]) for var in stage.residuals)
    outs = [jaxprs.read(known, var) for var in staged.outs]
    return staged, jax.tree.unflatten(staged.out_tree, outs)


def check(function, *args):
    """Stages give the function's bits; returns the names of the primitives of each stage."""
    staged, found = played(function, *args)
    expected = function(*args)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(a, b)
    return {
        name: [eqn.primitive.name for eqn in getattr(staged, name).eqns] for name in ORDER
    }, staged


def sizes(stage):
    return sorted(var.aval.shape for var in stage.residuals)


def test_each_equation_is_in_the_stage_of_what_it_depends_on():
    def one_round(data, key, t, point, carry):
        centred = jnp.sin(data["x"])
        seed = jnp.cos(jax.random.uniform(key))
        rate = jnp.exp(point["reg"]) + seed
        row = jnp.tanh(centred[t % 4])
        noise = jax.random.normal(jax.random.fold_in(key, t))
        w, n = carry
        return jnp.log1p(w * row * rate + noise), n + 1, jnp.sqrt(rate * noise + 99)

    names, staged = check(one_round, *ARGS)
    where = {
        primitive: name
        for name, primitives in names.items()
        for primitive in primitives
        if primitive in ("sin", "cos", "exp", "tanh", "erf_inv", "log1p", "sqrt")
    }
    assert where == dict(
        sin="shared", cos="seed", exp="lane", tanh="round", erf_inv="draw", log1p="round",
        sqrt="round",
    )  # fmt: skip
    assert sizes(staged.shared) == [(4, 3)]
    assert sizes(staged.seed) == [()]
    assert sizes(staged.lane) == [()]
    assert sizes(staged.draw) == [()]  # tanh depends on the round number alone: once for all lanes
    assert "random_bits" not in names["round"]


def test_masks_and_one_hot_rows_are_recomputed_from_what_is_small():
    def one_round(data, key, t, point, carry):
        word = jax.random.randint(jax.random.fold_in(key, t), (), 0, 100)
        one_hot = (jnp.arange(100) == word).astype(jnp.float32)
        mask = jnp.arange(100) < word
        return jnp.sum(jnp.where(mask, one_hot, carry[0][0])), carry[1]

    names, staged = check(one_round, *ARGS)
    assert sizes(staged.draw) == [()]
    assert "iota" in names["round"] and "eq" in names["round"] and "lt" in names["round"]
    assert "iota" not in names["draw"]


def test_mask_that_costs_less_than_what_it_is_made_of_is_handed_over():
    def one_round(data, key, t, point, carry):
        words = jax.random.bits(jax.random.fold_in(key, t), (3,))
        return jnp.where(words > 7, carry[0], 0.0), carry[1]

    names, staged = check(one_round, *ARGS)
    assert sizes(staged.draw) == [(3,)]
    assert [var.aval.dtype for var in staged.draw.residuals] == [bool]
    assert "gt" in names["draw"] and "gt" not in names["round"]


def test_constants_are_made_where_they_are_used():
    def one_round(data, key, t, point, carry):
        table = jnp.linspace(0.0, 1.0, 3)
        ahead = jnp.sum(table * jnp.sin(data["x"]))
        return carry[0] * table + ahead, jnp.arange(3) * t

    names, staged = check(one_round, *ARGS)
    assert sizes(staged.shared) == [()]
    assert "iota" in names["shared"] and "iota" in names["round"]


def test_closed_over_arrays_are_constants_of_the_round():
    table = np.arange(3, dtype=np.float32)

    def one_round(data, key, t, point, carry):
        return carry[0] + table * point["reg"] + jnp.asarray(table)[t % 3], jnp.asarray(table)

    _, staged = check(one_round, *ARGS)
    assert len(staged.constants) >= 1
    assert all(np.array_equal(value, table) for value in staged.constants.values())


class Out(NamedTuple):
    literal: int
    constant: jax.Array
    t: jax.Array
    key: jax.Array
    point: jax.Array
    carry: jax.Array
    data: jax.Array
    none: None


def test_outputs_may_be_literals_inputs_and_constants():
    def one_round(data, key, t, point, carry):
        words = jax.random.key_data(key)
        return Out(3, jnp.zeros(2), t, words, point["reg"], carry[0], data["shift"], None)

    names, staged = check(one_round, *ARGS)
    assert staged.draw.residuals == ()
    assert names["draw"] == []


def test_what_depends_on_the_round_number_alone_is_computed_in_the_round():
    def one_round(data, key, t, point, carry):
        value = jnp.sin(t * 1.5)
        noise = jax.random.uniform(jax.random.fold_in(key, t)) * value
        return value, noise, carry

    names, staged = check(one_round, *ARGS)
    assert sizes(staged.draw) == [()]
    assert "sin" in names["draw"] and "sin" in names["round"]


@pytest.mark.parametrize("uses_time", [False, True])
def test_round_without_random_numbers(uses_time):
    def one_round(data, key, t, point, carry):
        x = data["x"][t % 4 if uses_time else 0]
        return carry[0] * x, carry[1] + 1

    names, staged = check(one_round, *ARGS)
    assert staged.seed == staged.draw == stages.Stage((), (), ())
    assert (sizes(staged.shared) == []) == uses_time


def one_round_of_counters(data, key, t, point, carry):
    count, doubled, spoilt, seen, clock, w = carry
    x = jax.random.uniform(jax.random.fold_in(key, t)) / (clock + 1)
    return (count + 1, doubled + count * t, spoilt + seen, seen + (w > 0), clock + 1, w + x), x


def test_counters_that_begin_equal_hear_of_no_lane_and_stay_whole_are_uniform():
    carry = (*(jnp.int32(0) for _ in range(5)), jnp.float32(0))
    args = (None, KEY, TIME, {}, carry)
    staged = stages.split(one_round_of_counters, *args, starts_equal=(True,) * 6)
    assert staged.uniform == (True, True, False, False, True, False)
    apart = stages.split(one_round_of_counters, *args, starts_equal=(False, *(True,) * 5))
    assert apart.uniform == (False, False, False, False, True, False)
    assert stages.split(one_round_of_counters, *args).uniform == (False,) * 6


def test_same_everywhere_tells_what_depends_on_neither_key_nor_point():
    def begin(data, key, point):
        return 0, data["shift"], jax.random.uniform(key), point["reg"] * 0, jnp.ones(2)

    closed = jaxprs.inlined(begin, DATA, KEY, POINT)
    same = stages.same_everywhere(closed.jaxpr, DATA, KEY, POINT)
    assert same == (True, True, False, False, True)


def test_round_that_reads_nothing_at_all():
    names, staged = check(lambda data, key, t, point, carry: (), *ARGS)
    assert all(primitives == [] for primitives in names.values())
    assert all(getattr(staged, name).residuals == () for name in ORDER)


def test_arguments_may_be_empty():
    def one_round(data, key, t, point, carry):
        return jax.random.uniform(jax.random.fold_in(key, t))

    _, staged = check(one_round, None, KEY, TIME, {}, ())
    assert [len(group) for group in staged.inputs] == [0, 1, 1, 0, 0]
    assert sizes(staged.draw) == [()]


def test_seed_value_that_only_lanes_use_is_not_drawn_or_read_by_the_round():
    def one_round(data, key, t, point, carry):
        teacher = jax.random.normal(key, (3,))
        rate = jnp.exp(teacher * point["reg"])
        return carry[0] * rate, carry[1]

    _, staged = check(one_round, *ARGS)
    assert sizes(staged.seed) == [(3,)] and sizes(staged.lane) == [(3,)]
    assert set(staged.seed.residuals) <= set(staged.lane.inputs)
    assert not set(staged.seed.residuals) & set(staged.round.inputs)
    assert staged.draw.residuals == ()


def test_equation_of_two_stages_is_evaluated_once_and_read_by_both():
    def one_round(data, key, t, point, carry):
        teacher = jax.random.normal(key, (3,))
        return jnp.cos(teacher * t), jnp.exp(teacher * point["reg"]), carry[0] + teacher

    names, staged = check(one_round, *ARGS)
    (teacher,) = [var for var in staged.seed.residuals if var.aval.shape == (3,)]
    assert all(teacher in getattr(staged, name).inputs for name in ("lane", "draw", "round"))
    assert sum(primitives.count("erf_inv") for primitives in names.values()) == 1


def test_equation_with_several_results_crosses_over_by_what_is_read():
    def one_round(data, key, t, point, carry):
        words = jax.random.bits(jax.random.fold_in(key, t), (3,))
        _, ranks = jax.lax.sort((words, jnp.arange(3)), num_keys=1)
        _, index = jax.lax.top_k(words.astype(float), 2)
        return carry[0][ranks], index + carry[1]

    names, staged = check(one_round, *ARGS)
    assert "sort" in names["draw"] and "top_k" in names["draw"]
    assert [np.prod(size) for size in sizes(staged.draw)] == [2, 3]


def test_loops_and_branches_go_where_their_inputs_are_known():
    def one_round(data, key, t, point, carry):
        drawn = jax.lax.fori_loop(0, t, lambda i, v: v + i, 0)
        played = jax.lax.while_loop(lambda n: n < t, lambda n: n + carry[1], carry[1])
        return jax.lax.cond(carry[1] > 0, lambda: drawn, lambda: played), carry[0]

    names, _ = check(one_round, *ARGS)
    assert names["draw"].count("while") == 0 and names["round"].count("while") == 2
    assert names["round"].count("cond") == 1


def test_calls_are_inlined():
    @jax.jit
    def nested(x):
        return jax.jit(jnp.sin)(x) + jax.checkpoint(jnp.cos)(x)

    @jax.custom_vjp
    def own(x):
        return jnp.exp(x)

    own.defvjp(lambda x: (jnp.exp(x), x), lambda x, g: (g * x,))

    def function(x):
        return nested(x), own(x), jax.nn.relu(x), jax.nn.logsumexp(x), jax.nn.softplus(x)

    closed = jaxprs.inlined(function, jnp.ones(3))
    names = {eqn.primitive.name for eqn in closed.jaxpr.eqns}
    assert {"sin", "cos", "exp"} <= names
    calls = ("jit", "remat2", "custom_jvp_call", "custom_vjp_call", "closed_call")
    assert not names & set(calls)
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env |= {closed.jaxpr.invars[0]: jnp.arange(3.0)}
    env = jaxprs.evaluate(closed.jaxpr.eqns, env)
    found = [jaxprs.read(env, var) for var in closed.jaxpr.outvars]
    for a, b in zip(function(jnp.arange(3.0)), found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)  # one compiled call against single operations


def test_work_hidden_in_a_call_is_split_as_well():
    @jax.jit
    def both(t, w):
        return jnp.sin(t * 1.0), jnp.cos(w)

    def one_round(data, key, t, point, carry):
        return both(jax.random.uniform(jax.random.fold_in(key, t)), carry[0])

    names, _ = check(one_round, *ARGS)
    assert "sin" in names["draw"] and "cos" in names["round"] and "jit" not in names["round"]


def test_equations_that_nobody_reads_are_left_out():
    def one_round(data, key, t, point, carry):
        jnp.sin(jax.random.normal(jax.random.fold_in(key, t)) * carry[0])
        return carry[1] + 1

    names, _ = check(one_round, *ARGS)
    assert names["round"] == ["add"] and not any(names[name] for name in ORDER[:-1])


def test_keys_may_cross_from_draw_to_round():
    def one_round(data, key, t, point, carry):
        sub = jax.random.fold_in(key, t)
        return jax.lax.cond(carry[1] > 0, jax.random.uniform, lambda k: 0.0, sub)

    _, staged = check(one_round, *ARGS)
    assert [var.aval.dtype for var in staged.draw.residuals] == [KEY.dtype]


def test_arguments_may_be_shapes():
    def one_round(data, key, t, point, carry):
        return carry[0] + t * point["reg"]

    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), ARGS)
    staged = stages.split(one_round, *shapes)
    assert [var.aval.shape for var in staged.outs] == [(3,)]


def test_dtypes_are_kept_under_x64():
    with jax.enable_x64(True):

        def one_round(data, key, t, point, carry):
            wide = jax.random.uniform(jax.random.fold_in(key, t), dtype=jnp.float64)
            return wide * carry[0] + 1, carry[1] * 2, t + 1, point["reg"] / 3

        staged, found = played(one_round, *ARGS)
        kinds = [str(leaf.dtype) for leaf in found]
        assert kinds == ["float64", "int32", "int32", "float32"]
        assert {str(var.aval.dtype) for var in staged.draw.residuals} == {"float64"}


def test_of_an_example_only_what_has_the_same_bits_everywhere_is_computed_ahead():
    def one_round(data, key, t, point, carry):
        x = jax.random.uniform(jax.random.fold_in(key, t), (3,))
        teacher = jnp.sum(x * x)  # the stream's: ahead
        x, y = primitives.drawn((x, teacher > 1))
        square, norm = x * x, jnp.sum(x[:2] * x[:2])
        return carry[0] + square * norm + jnp.exp(x) * y, carry[1]

    names, staged = check(one_round, *ARGS)
    assert names["draw"].count("ordered_sum") == 2 and "ordered_sum" not in names["round"]
    assert "exp" in names["round"] and "gt" in names["draw"]


def exactly(function, *args):
    """The function, evaluated as the engine does; -0.0 comes first."""
    closed = jaxprs.inlined(function, *args)
    closed = exact(closed, [False] * len(args), [False] * len(args))

    def evaluated(zero, *values):
        values = zero, zero, *values
        env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        env.update(zip(closed.jaxpr.invars, values, strict=True))
        env = jaxprs.evaluate(closed.jaxpr.eqns, env)
        return jaxprs.read(env, closed.jaxpr.outvars[0])

    return evaluated


def in_jit(a, b, c):
    return jax.jit(lambda a, b: a * b)(a, b) + c


def in_scan(a, b, c):
    return jax.lax.scan(lambda c, _: (in_jit(a, b, c), None), c, length=1)[0]


def in_while(a, b, c):
    return jax.lax.fori_loop(0, (a > 0).astype(int)[0], lambda i, c: in_jit(a, b, c), c)


def in_cond(a, b, c):
    return jax.lax.cond(a[0] > 0, in_jit, lambda a, b, c: c, a, b, c)


def in_outer(a, b, c):
    return jax.lax.dot_general(a[:1], b[:1], (((), ()), ((), ())))[0, 0] + c


@pytest.mark.parametrize("function", [in_jit, in_scan, in_while, in_cond, in_outer])
def test_products_are_rounded_before_they_are_added_to(function):
    numbers = (1 + 2**-12, 1 + 2**-12, -1 - 2**-11)
    values = [jnp.full(16, value, jnp.float32) for value in numbers]
    sums = jax.jit(exactly(function, *values))(jnp.float32(-0.0), *values)
    np.testing.assert_array_equal(sums, 0)  # fused it is 2^-24
    fused = jax.jit(function)(*values)
    assert set(np.unique(fused)) <= {0.0, 2.0**-24}  # a compiler may do either


def test_minus_zero_changes_no_number():
    special = np.array([0.0, -0.0, np.inf, -np.inf, 2e-38, -2e-38, 3e38, 1.5], np.float32)
    out = exactly(lambda x: x * np.float32(1), special)(np.float32(-0.0), special)
    np.testing.assert_array_equal(np.asarray(out).view(np.uint32), special.view(np.uint32))
