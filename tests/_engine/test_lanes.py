import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import primitives

from jonline._engine import jaxprs, lanes, loops
from jonline._engine.loops import Lanes

L = 3  # as long as some axes of a lane, so that an axis taken for the lane axis shows
ZERO = jnp.float32(-0.0)
BLOCK = loops.LaneContext(L, ZERO, jnp.full(L, ZERO), lanes.evaluate, loops.last_axis)


def by_lanes(function, args, per_lane):
    """Evaluates a one-lane function for all lanes; `per_lane` says which args have a lane axis."""
    alone = [_alone(arg, lane) for arg, lane in zip(args, per_lane, strict=True)]
    closed = jaxprs.exact(jaxprs.inlined(function, *alone))

    def evaluated(*args):
        values = [Lanes(arg) if lane else arg for arg, lane in zip(args, per_lane, strict=True)]
        env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        env.update(zip(closed.jaxpr.invars, [ZERO, *values], strict=True))
        env = lanes.evaluate(closed.jaxpr.eqns, env, BLOCK)
        outs = [jaxprs.read(env, var) for var in closed.jaxpr.outvars]
        return [loops.spread(out, L).value for out in outs]

    tree = jax.tree.structure(jax.eval_shape(function, *alone))
    return jax.tree.unflatten(tree, evaluated(*args))


def _by_vmap(function, args, per_lane):
    first = [jnp.moveaxis(a, -1, 0) if lane else a for a, lane in zip(args, per_lane, strict=True)]
    outs = jax.vmap(function, in_axes=[0 if lane else None for lane in per_lane])(*first)
    return jax.tree.map(lambda out: jnp.moveaxis(out, 0, -1), outs)


def _alone(arg, per_lane):
    return jax.ShapeDtypeStruct(arg.shape[:-1] if per_lane else arg.shape, arg.dtype)


def check(function, *args):
    """Compares with `vmap`: all args per lane, and each one alone.

    `args` have the lane axis last; a shared one is its first lane.
    """
    args = [jnp.asarray(arg) for arg in args]
    num = len(args)
    for per_lane in {(True,) * num, *(tuple(i == j for j in range(num)) for i in range(num))}:
        mixed = [a if lane else a[..., 0] for a, lane in zip(args, per_lane, strict=True)]

        def both(*args, per_lane=per_lane):
            return _by_vmap(function, args, per_lane), by_lanes(function, args, per_lane)

        # Level 0 compiles in a fraction of the time.
        options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
        expected, found = jax.jit(both, compiler_options=options)(*mixed)
        paths = jax.tree_util.tree_leaves_with_path(expected)
        for (path, a), b in zip(paths, jax.tree.leaves(found), strict=True):
            where = f"{jax.tree_util.keystr(path)} with per_lane={per_lane}"
            assert a.dtype == b.dtype and a.shape == b.shape, where
            if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
                a, b = jax.random.key_data(a), jax.random.key_data(b)
            # 2e-6: sums in another order, and other instructions for the same function.
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6, err_msg=where)


def floats(*shape, seed=0):
    """In (0.1, 0.9), where every function is defined."""
    values = np.random.default_rng(seed).uniform(0.1, 0.9, (*shape, L))
    return jnp.asarray(values, jnp.float32)


def ints(*shape, seed=0, least=1, most=9):
    values = np.random.default_rng(seed).integers(least, most + 1, (*shape, L))
    return jnp.asarray(values, jnp.int32)


def bools(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).random((*shape, L)) < 0.5)


def uses(function, *args):
    eqns = jaxprs.inlined(function, *(_alone(arg, True) for arg in args)).jaxpr.eqns
    return {eqn.primitive.name for eqn in eqns}


ONE_FLOAT = dict(
    abs=jnp.abs, acos=lax.acos, acosh=lambda x: lax.acosh(x + 1), asin=lax.asin, asinh=lax.asinh,
    atan=lax.atan, atanh=lax.atanh, bessel_i0e=lax.bessel_i0e, bessel_i1e=lax.bessel_i1e,
    cbrt=lax.cbrt, ceil=lax.ceil, convert_element_type=lambda x: (9 * x).astype(int), copy=jnp.copy,
    cos=lax.cos, cosh=lax.cosh, digamma=lax.digamma, erf=lax.erf, erf_inv=lax.erf_inv,
    erfc=lax.erfc, exp=lax.exp, exp2=lax.exp2, expm1=lax.expm1, floor=lax.floor,
    integer_pow=lambda x: x**3, is_finite=lax.is_finite, lgamma=lax.lgamma, log=lax.log,
    log1p=lax.log1p, logistic=lax.logistic, neg=lax.neg,
    reduce_precision=lambda x: lax.reduce_precision(x, 5, 4), round=lax.round, rsqrt=lax.rsqrt,
    sign=lambda x: lax.sign(x - 0.5), sin=lax.sin, sinh=lax.sinh, sqrt=lax.sqrt, square=lax.square,
    stop_gradient=lax.stop_gradient, tan=lax.tan, tanh=lax.tanh,
    add_any=jax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.cos(x))),
)  # fmt: skip
TWO_FLOATS = dict(
    add=lax.add, atan2=lax.atan2, div=lax.div, eq=lax.eq, ge=lax.ge, gt=lax.gt, igamma=lax.igamma,
    igammac=lax.igammac, le=lax.le, lt=lax.lt, max=lax.max, min=lax.min, mul=lax.mul, ne=lax.ne,
    nextafter=lax.nextafter, pow=lax.pow, rem=lax.rem, sub=lax.sub,
    zeta=lambda x, y: lax.zeta(x + 1, y),
    polygamma=lambda x, y: lax.polygamma(jnp.ceil(3 * x), y),
)  # fmt: skip
ONE_INT = {"clz": lax.clz, "not": lax.bitwise_not, "population_count": lax.population_count}
TWO_INTS = {
    "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor,
    "shift_left": lax.shift_left, "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": lambda a, b: lax.shift_right_arithmetic(-a, b),
}  # fmt: skip
THREE = dict(
    clamp=lax.clamp,
    regularized_incomplete_beta=lax.betainc,
    select_n=lambda a, b, c: lax.select_n(a < 0.5, b, c),
)


def test_every_rule_is_for_a_primitive_of_this_jax():
    every = {getattr(getattr(primitives, name), "name", None) for name in dir(primitives)}
    assert set(lanes._RULES) <= every | {"optimization_barrier"}


@pytest.mark.parametrize(
    ("cases", "args"),
    [
        (ONE_FLOAT, (floats(2, L),)),
        (TWO_FLOATS, (floats(2, L), floats(2, L, seed=1))),
        (ONE_INT, (ints(2, L),)),
        (TWO_INTS, (ints(2, L), ints(2, L, seed=1))),
        (THREE, (floats(L), floats(L, seed=1), floats(L, seed=2))),
    ],
    ids=["one float", "two floats", "one int", "two ints", "three floats"],
)
def test_elementwise_equals_vmap(cases, args):
    for name, function in cases.items():
        assert name in uses(function, *args), f"{name} is not tested by its case"
    check(lambda *args: {name: function(*args) for name, function in cases.items()}, *args)


def test_every_elementwise_primitive_has_a_case():
    cases = {*ONE_FLOAT, *TWO_FLOATS, *ONE_INT, *TWO_INTS, *THREE}
    assert lanes._ELEMENTWISE == cases


def test_scalar_bounds_and_predicates_reach_every_entry_of_their_lane():
    check(lax.clamp, floats(seed=1) / 2, floats(2, L), floats(seed=2))
    check(lax.select_n, bools(), floats(2, L), floats(2, L, seed=1))
    check(lax.select_n, ints(most=2, least=0), *(floats(L, seed=i) for i in range(3)))
    check(lax.select_n, bools(2, L), floats(2, L), floats(2, L, seed=1))


def test_literals_keep_the_dtype_of_their_partner():
    def function(x, i, b):
        half, small = x.astype(jnp.bfloat16), i.astype(jnp.uint8)
        return x * 2 + 1.0, i * 3, half * 2.5, small + 7, b & True, jnp.where(b, x, 0), 2 - i, x**i

    check(function, floats(L), ints(L), bools(L))
    with jax.enable_x64(True):
        check(function, floats(L), ints(L), bools(L))
        check(lambda x: (x * 2.5, x > 1), floats(L).astype(jnp.float64))


@pytest.mark.parametrize("narrow, wide", [(jnp.uint8, jnp.uint32), (jnp.uint16, jnp.int32)])
def test_bits_are_reinterpreted_in_their_own_lane(narrow, wide):
    check(lambda i: lax.bitcast_convert_type(i, jnp.float32), ints(2, L))
    check(lambda i: lax.bitcast_convert_type(i.astype(wide), narrow), ints(2, L, most=2**30))
    size = jnp.dtype(wide).itemsize // jnp.dtype(narrow).itemsize
    check(lambda i: lax.bitcast_convert_type(i.astype(narrow), wide), ints(2, size))


def test_broadcast_equals_vmap():
    check(
        lambda a, v, m: (
            jnp.broadcast_to(a, (2, L)),
            jnp.broadcast_to(v, (2, L)),
            lax.broadcast_in_dim(v, (L, 2), (0,)),
            lax.broadcast_in_dim(m, (2, L, 4), (0, 1)),
            v[:, None] * v[None, :] + a,
            jnp.full((2,), a),
            m + v,
        ),
        floats(), floats(L, seed=1), floats(2, L, seed=2),
    )  # fmt: skip


def test_reductions_equal_vmap():
    def function(x, i, b):
        return (
            jnp.sum(x), jnp.sum(x, axis=0), jnp.max(x, axis=1), jnp.min(x), jnp.prod(x, axis=(0,)),
            jnp.argmax(x, axis=0), jnp.argmin(x, axis=1), jnp.argmax(x), jnp.mean(x, axis=1),
            jnp.sum(i, axis=1), jnp.max(i), jnp.sum(b), jnp.any(b, axis=0), jnp.all(b),
            jax.nn.logsumexp(x, axis=0), jax.nn.softmax(x),
            lax.reduce(i, jnp.int32(0), lax.bitwise_xor, (0,)),
            lax.reduce(x, jnp.float32(0), lambda a, c: a + 2 * c, (1,)),
        )  # fmt: skip

    check(function, floats(2, L), ints(2, L), bools(2, L))


def test_equal_entries_have_the_first_as_their_argmax():
    check(lambda i: (jnp.argmax(i), jnp.argmin(i), jnp.argmax(i > 1)), ints(5, least=1, most=2))


def test_cumulative_sums_equal_vmap():
    def function(x, i):
        return (
            jnp.cumsum(x, axis=0), jnp.cumsum(i, axis=1), jnp.cumprod(x, axis=1),
            lax.cummax(x, axis=0), lax.cummin(i, axis=1), lax.cumlogsumexp(x, axis=1),
            lax.cumsum(x, axis=1, reverse=True), lax.cummax(i, axis=0, reverse=True),
        )  # fmt: skip

    check(function, floats(2, L), ints(2, L))


def test_changes_of_form_equal_vmap():
    def function(x, y):
        return (
            x.reshape(-1), x.reshape(L, 2), x.reshape(1, 2, L, 1), y[:1].reshape(()),
            lax.reshape(x, (L, 2), (1, 0)), x.T, jnp.transpose(x[None], (2, 0, 1)),
            x[1], x[:, 1:], x[::-1], x[:, ::2], x[-1, -1], lax.slice(x, (0, 0), (2, 3), (1, 2)),
            jnp.squeeze(x[:1], 0), jnp.flip(x), lax.rev(x, (1,)), jnp.expand_dims(x, (0, 2)),
            jnp.concatenate([x, x[:1]]), jnp.concatenate([x, y[:, None], jnp.ones((2, 1))], axis=1),
            jnp.stack([y, jnp.arange(2.0)], axis=-1), jnp.pad(y, (1, 2)), jnp.tile(y, 2),
            jnp.repeat(y, 2), jnp.roll(x, 1, axis=1), jnp.split(x, 3, axis=1),
        )  # fmt: skip

    check(function, floats(2, L), floats(2, seed=1))


def test_slices_at_computed_places_equal_vmap():
    """Places beyond the end are moved inside, as for one lane."""

    def function(x, new, i):
        return (
            lax.dynamic_slice(x, (i, 0), (2, 2)),
            lax.dynamic_slice(x, (0, i), (4, 1)),
            lax.dynamic_index_in_dim(x, i, 0, False),
            lax.dynamic_update_slice(x, new[None], (i, 0)),
            lax.dynamic_update_index_in_dim(x, new, i, 0),
            x.at[i].set(new), x.at[i, 1].add(2.0), x[i], x[i % 4, i % 3], x.at[:, i].max(0.5),
            jnp.take(x, jnp.array([0, 2, 0]) + i, axis=0, mode="clip"),
        )  # fmt: skip

    check(function, floats(4, L), floats(L, seed=1), ints(seed=1, least=-5, most=5))
    with jax.enable_x64(True):
        i = ints(least=0, most=5).astype(jnp.int64)
        check(function, floats(4, L), floats(L, seed=1), i)


def test_slices_at_places_of_other_dtypes_equal_vmap():
    for dtype in (jnp.uint8, jnp.uint32, jnp.int16):
        check(
            lambda x, i: (x[i.astype(dtype)], lax.dynamic_slice(x, (i.astype(dtype),), (2,))),  # noqa: B023
            floats(5), ints(most=4),
        )  # fmt: skip


def test_linear_algebra_and_sorting_equal_vmap():
    def function(m, n, v, i):
        return (
            m @ n, m @ v, v @ v, jnp.einsum("ij,ik->jk", m, m), jnp.outer(v, v),
            jnp.sort(v), jnp.argsort(v), jnp.argsort(m, axis=0), lax.top_k(v, 2),
            jnp.searchsorted(jnp.sort(v), 0.5), jnp.take_along_axis(m, i[:, None] % 3, axis=1),
            v[i], jnp.zeros(9).at[i].add(1.0), jax.ops.segment_sum(v[:2], i, 9),
            jnp.linalg.solve(m.T @ m + jnp.eye(3), v), jnp.linalg.cholesky(m.T @ m + jnp.eye(3)),
        )  # fmt: skip

    args = (floats(2, L), floats(L, 2, seed=1), floats(L, seed=2), ints(2, most=2))
    check(lambda m, v: function(m, args[1][..., 0], v, args[3][..., 0]), args[0], args[2])
    check(lambda n, i: function(args[0][..., 0], n, args[2][..., 0], i), args[1], args[3])


def test_lanes_leave_a_loop_at_different_times():
    def function(x, steps, scale):
        def body(loop):
            i, total, vector, flag = loop
            return i + 1, total + x * scale, vector * 0.5 + total, ~flag

        start = (0, 0.0, jnp.ones(2), jnp.array(False))
        return lax.while_loop(lambda loop: loop[0] < steps, body, start)

    check(function, floats(), ints(least=0, most=6), floats(seed=1))


def test_loop_keeps_the_values_of_a_lane_that_is_done():
    """A lane that is done would divide by zero if it went on."""

    def function(x):
        return lax.while_loop(lambda loop: loop[0] > 0, lambda loop: (loop[0] - 1, 1 / loop[0]), x)

    check(lambda i: function((i, jnp.float32(7))), ints(least=0, most=4).astype(jnp.float32))


def test_loop_with_shared_start_and_constants_becomes_per_lane():
    def function(x, n):
        def body(i, total):
            return total + x[i]

        return lax.fori_loop(0, n, body, jnp.float32(0)), lax.fori_loop(0, 3, body, 0.0)

    check(function, floats(4), ints(most=4))


def test_loops_within_loops_equal_vmap():
    def function(x, n):
        def outer(loop):
            i, total = loop
            inner = lax.fori_loop(0, i % 3, lambda j, v: jax.nn.relu(v - 0.1) + j, total)
            chosen = lax.cond(total > 1, lambda v: v / 2, lambda v: v + x, inner)
            return i + 1, jnp.clip(chosen, 0, 5)

        return lax.while_loop(lambda loop: loop[0] < n, outer, (0, x))

    check(function, floats(), ints(least=0, most=5))


def test_scan_equals_vmap():
    def function(start, xs, scale):
        def body(carry, x):
            carry = carry * scale + jnp.sum(x["a"])
            return carry, (carry, x["a"] * 2, scale)

        xs = {"a": xs, "b": jnp.arange(4)}
        return (
            lax.scan(body, start, xs),
            lax.scan(body, start, xs, reverse=True),
            lax.scan(lambda c, _: (c + scale, None), start, length=3),
            lax.scan(lambda c, x: (c, x), (), xs["b"]),
            lax.associative_scan(jnp.add, xs["a"]),
            lax.map(lambda x: x * scale, xs["a"]),
        )

    check(function, floats(), floats(4, 2, seed=1), floats(seed=2))


def test_branches_equal_vmap():
    def function(on, i, x):
        return (
            lax.cond(on, lambda v: v * 2, lambda v: v - 1, x),
            lax.cond(on, lambda: 1, lambda: 2),
            lax.switch(i, [lambda v: v, lambda v: v[::-1], lambda v: v * 0], x),
            jnp.where(on, x, -x),
        )

    check(function, bools(), ints(least=-1, most=3), floats(L))


def test_random_numbers_are_those_of_the_lane():
    keys = jax.random.split(jax.random.key(0), L)

    def function(key, prob):
        other, third = jax.random.split(jax.random.fold_in(key, 3))
        return (
            jax.random.uniform(key), jax.random.normal(other, (2,)), jax.random.bits(key, (L,)),
            jax.random.randint(third, (), 0, 5), jax.random.bernoulli(key, prob),
            jax.random.categorical(key, jnp.log(jnp.stack([prob, 1 - prob]))),
        )  # fmt: skip

    check(function, keys, floats())


def test_keys_are_values_like_others():
    keys = jax.random.split(jax.random.key(0), L)

    def function(key, on, n):
        chosen = jnp.where(on, key, jax.random.fold_in(key, 1))
        looped = lax.fori_loop(0, n, lambda i, k: jax.random.fold_in(k, i), key)
        slots = jnp.stack([key, chosen, looped])
        scanned, _ = lax.scan(lambda k, _: (jax.random.split(k)[0], None), key, length=2)
        return (
            chosen,
            looped,
            slots[n % 3],
            scanned,
            lax.cond(on, lambda k: k, lambda _: chosen, key),
        )

    check(function, keys, bools(), ints(least=0, most=4))


def test_custom_derivatives_and_calls_equal_vmap():
    def function(x):
        loop = lax.fori_loop(0, 2, lambda i, v: jax.nn.softplus(jax.nn.relu(v)), x)
        remat = jax.checkpoint(lambda v: jnp.sin(v) * 2)(x)
        return loop, remat, jax.nn.gelu(x), jax.grad(lambda v: jnp.sum(jnp.tanh(v) ** 2))(x)

    check(function, floats(L))


def test_empty_values_keep_their_shape():
    def function(x, y):
        none = y[:0]
        return (
            none * x,
            jnp.sum(none),
            jnp.concatenate([none, y]),
            none.reshape(0, 2),
            none[:, None],
        )

    check(function, floats(), floats(2))


def test_what_no_lane_changes_stays_shared():
    closed = jaxprs.inlined(lambda a, b: (a * 2 + 1, a * b), 1.0, 1.0)
    a, b = closed.jaxpr.invars
    env = lanes.evaluate(closed.jaxpr.eqns, {a: jnp.ones(()), b: Lanes(jnp.ones(L))}, BLOCK)
    shared, per_lane = (jaxprs.read(env, var) for var in closed.jaxpr.outvars)
    assert not isinstance(shared, Lanes) and isinstance(per_lane, Lanes)


def test_spread_copies_to_all_lanes_and_leaves_lanes_alone():
    value = Lanes(jnp.ones((2, L)))
    assert loops.spread(value, L) is value
    np.testing.assert_array_equal(loops.spread(np.arange(2), L).value, [[0] * L, [1] * L])
    assert loops.spread(True, L).value.dtype == bool
