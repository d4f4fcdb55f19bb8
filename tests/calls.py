"""All public functions with good arguments, for the tests that change these."""

import inspect
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax

import jonline
from jonline import Environment, hypotheses, optimizers, oracles, ordinal, reject, streams
from jonline import structured as st
from jonline.core import Example
from tests.games import clock


def public_functions():
    """Name -> function, of all that `jonline` and what it exports have in public."""
    modules, found = [jonline, jonline.kernels], {}
    for module in modules:  # grows
        names = getattr(module, "__all__", None)
        for name in names or [*vars(module)]:
            value = getattr(module, name)
            if names and isinstance(value, types.ModuleType) and value not in modules:
                modules.append(value)
            own = names or getattr(value, "__module__", "") == module.__name__
            if inspect.isfunction(value) and own and not name.startswith("_"):
                found[f"{value.__module__}.{value.__name__}"] = value
    # The checks are what speaks; their own arguments are jonline's.
    return {n: f for n, f in sorted(found.items()) if not n.startswith("jonline.checks.")}


SPACE = st.multiclass(3)
X, Y = np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3), np.arange(8, dtype=np.int32) % 3 + 1
TABLE = Example(X, Y)
LINEAR = hypotheses.linear(3)
OGD = optimizers.adaptive_ogd(1.0)
DRAL = reject.dral(LINEAR, cost=0.2, step_size=0.1)


def make(point, data):
    learner = ordinal.prank(LINEAR, 3)
    return learner, Environment(streams.resample(TABLE), oracles.label())


def metrics(example, prediction, feedback, state):
    return {"error": prediction.output != example.y}


def squared(theta, y):
    return jnp.sum((theta - y) ** 2)


STATES = ordinal.OrdinalState(np.zeros((2, 3)), np.zeros((2, 2)), np.zeros(2, np.int32))
CHOICES = ordinal.OrdinalPrediction(Y[:2], np.zeros(2), np.zeros((2, 2)))
ANSWERS = oracles.Label(Y[:2], np.ones(2, bool))
TRACE = jonline.Trace(np.arange(2), Example(X[:2], Y[:2]), CHOICES, ANSWERS, STATES, Y[:2])
COLUMNS = ("accepted", "rejected", "correct", "misclassified", "asked")
COLUMNS = {name: np.ones((1, 2, 4)) for name in (*COLUMNS, "target_loss", "expected_target_loss")}

# One good value for each name of a parameter, and for a function's own where the name says less.
GOOD = dict(
    name="abc", num_classes=3, num_features=3, num_labels=4, num_items=3, subset_size=2,
    hypothesis=LINEAR, reg=0.5, explore=0.2, clip=1.0, clip_rule=ordinal.bound_norm, tie="<",
    init="zeros", cost=0.2, slope=1.0, step_size=0.1, project=False, exact_gradient=False,
    exact=False, space=SPACE, estimator=st.full_information(SPACE), optimizer=OGD, diameter=2.0,
    radius=1.0, extent=1.0, loss=st.logistic_gap(3), base=2.0, cutoff=0.5, delay=2, max_delay=2,
    total_delay=4, num_rounds=4, sq_radius=1.0, tight=False, running=False, sharpness=1.0,
    tolerance=0.1, max_iterations=5, origin=None, budget=4, degree=2, offset=1.0, keep_norm=True,
    width=1.0, k=jonline.kernels.linear, rounds=2, max_rounds=3, prob=0.5, exponent=1.5,
    data=TABLE, shuffle=True, noise=0.0, ends=oracles.uniform_ends, fraction=0.5,
    target=SPACE.target, learner=DRAL, rate=0.5, most=4, scale=1.0, gradient_bound=1.0, tx=optax.
    sgd(0.1), params=np.ones((3, 3), np.float32), score=0.5, thresholds=np.arange(2.0), y=2,
    low=1, high=2, label=1, output=2, greedy=1, words=np.array([1, 2], np.uint32), norm=1.0,
    z=1.0, sq_norm=1.0, x=np.ones(3, np.float32), point=np.full(3, 1 / 3, np.float32),
    mixture=st.Mixture(jnp.eye(3), jnp.full(3, 1 / 3)), scores=np.ones((2, 2), np.float32),
    constants=SPACE.constants, make=make, metrics=metrics, grid={"a": [1.0]}, key=0, seed=0,
    num_seeds=1, record_every=2, block=16, devices=None, windows_per_call=None, progress=None,
    checkpoint=None, checkpoint_seconds=60.0, first=0, last=2, state=TRACE.state,
    example=Example(X[0], 1), prediction=TRACE.prediction, feedback=TRACE.feedback, trace=TRACE,
    comparator=None, records=COLUMNS, comparator_loss=np.ones(4), gap=0.1, surrogate=squared,
    examples=(X, X), max_steps=3, stream=clock(), threads=None, host_devices=None,
    deterministic_gpu=False, coordinator=None, num_processes=None, process_id=None,
    uniform_mean=np.ones(3) / 3, uniform_second_moment=np.eye(3) / 3, rule="be", labels=Y, dim=3,
    is_output=lambda rows: rows.any(axis=1), theta=np.ones(3), conjugate=jnp.max, path="none.nc",
    axes=[1.0], formula="q", oracle=oracles.label(), cache=None, values={"a": 1.0}, observed=True,
    seen=np.ones(2), unseen=np.zeros(2), bound=5, cut=1.0,
)  # fmt: skip
OWN = {
    "jonline.core.step.state": DRAL.init(jax.random.key(0)),
    "jonline.core.step.key": jax.random.key(0),
    "jonline.core.step.feedback": lambda prediction, key: oracles.Label(1, True),
    "jonline._sweep.api.run.point": {},
    "jonline._sweep.trace.trace.point": {},
    "jonline._sweep.api.sweep.data": None,
    "jonline._sweep.api.run.data": None,
    "jonline._sweep.trace.trace.data": None,
    "jonline.structured.decoding.sample.key": jax.random.key(0),
    "jonline.structured.decoding.prob.output": np.eye(3)[0],
    "jonline.structured.spaces.space.cholesky_dual.loss": SPACE.loss,
    "jonline.delays.table.rounds": [1, 2],
    "jonline.delays.uniform.most": 3,
    "jonline.sampling.two_words.key": jax.random.key(0),
    "jonline.delays.never.delay": jonline.delays.fixed(1),
    "jonline.metrics.ordinal.state": ordinal.OrdinalState(0, jnp.zeros(2), 0),
    "jonline.metrics.ordinal.prediction": ordinal.OrdinalPrediction(1, 0.0, 0.0),
    "jonline.optimizers.online.from_optax.project": None,
    "jonline.optimizers.bold.bold.base": OGD,
    "jonline.oracles.neighbours.key": jax.random.key(0),
    "jonline.oracles.uniform_ends.key": jax.random.key(0),
}
for bound in ("rejected_bound", "misclassified_bound"):
    OWN[f"jonline.reject.theory.{bound}.comparator"] = reject.theory.Separator(4.0, 1.0)
for name, value in {
    "by_edges.values": np.arange(4.0), "by_edges.edges": [1.0, 2.0],
    "by_multiples.values": np.arange(4.0), "by_multiples.step": 1.0,
    "equal_frequency.values": np.arange(6.0), "divided.divisor": 2.0,
    "decode_labels.labels": [1, 2], "decode_labels.order": ["a", "b"],
    "encode_labels.values": [3, 1, 2], "encode_labels.order": None,
    "encode_signs.values": [0, 1, 0], "encode_signs.order": None,
    "from_arrays.provenance": jonline.data.Provenance(), "query_rankings.grades": Y,
    "query_rankings.groups": [1, 1, 1, 1, 2, 2, 2, 2], "multilabel_table.num_rows": 5,
    "multilabel_table.unit_norm": False, "van_der_hoeven.scale": 1, "linear_teacher.margin": 0.1,
    "load.name": "abalone", "load.scale": None, "lambdarank.scale": None, "movielens.scale": None,
    "telemonitoring.scale": None, "load_entry.scale": None, "movielens.user": None,
    "movielens.num_users": 3, "telemonitoring.keep_motor": False,
    "telemonitoring.num_classes": None, "load_entry.entry": jonline.data.ENTRIES["abalone"]
    if isinstance(jonline.data.ENTRIES, dict) else jonline.data.ENTRIES[0],
    "directory": "", "read_csv.source": b"a,b\n1,2\n3,4\n", "read_csv.target": -1,
    "read_csv.header": True, "read_csv.drop": (), "read_csv.categorical": (),
    "read_csv.delimiter": ",", "read_libsvm.source": b"1 1:2\n", "read_libsvm.query_sizes": None,
    "read_libsvm.num_features": None, "read_numbers.source": b"1 2\n3 4\n",
    "read_numbers.labels": b"1\n2\n", "read_arff.source": b"@relation a\n",
    "read_arff.target": None, "read_images.images": b"",
    "read_idx.source": b"\0\0\x08\x01\0\0\0\x01\1", "read_images.labels": b"",
}.items():  # fmt: skip
    OWN[name] = value
for name in ("from_arrays", "drop_bad_rows", "query_rankings", "divided", "min_max", "standardise",
             "unit_indicators", "unit_rows", "unscaled"):  # fmt: skip
    OWN[f"{name}.x"], OWN[f"{name}.y"] = X, Y


def good_value(function, name):
    for where in (f"{function}.{name}", f"{function.rsplit('.', 1)[1]}.{name}", name):
        if where in OWN:
            return OWN[where]
    return GOOD[name]


def arguments(name, function):
    values, axes = {}, {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            axes = {"a": [1.0], "b": 2}
        else:
            values[parameter.name] = good_value(name, parameter.name)
    return values, axes


def called(function, values, axes):
    """Calls with the values by name."""
    positional = [
        values[parameter.name]
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    keywords = {
        parameter.name: values[parameter.name]
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    return function(*positional, **keywords, **axes)
