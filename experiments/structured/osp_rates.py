"""How fast does the surrogate regret grow with T? Theorems 3.5 and 3.7 on classes planted in noise.

    x = (s v_c, sqrt(1 - s^2) u),   ||x|| = 1,   c ~ U{1…K},   y = e_c; with probability r, e_c',

v_c the K corners of a regular simplex, u uniform on a sphere, c' ~ U. For each T both estimates are
played at the theory's exploration for that T. The comparator of a seed is the best model of the
ball of radius B/2 on that seed's own examples. Slopes are of log R over log T, fitted for each
seed, with 95 % over seeds.

Without noise nearly all of the regret is what exploring costs, q T (K-1)/K, and its exponent that
of the q that is chosen. With noise the regret falls below 0, since the comparator's surrogate loss
is then larger than the learner's target loss, and has no slope. What there is to learn shows in the
surrogate losses less the comparator's: by the proofs, with a surrogate loss that grows like T, they
are O(T^(3/4)) for the inverse-weighted estimate and O(T^(2/3)) for the pseudo-inverse one.

Source: arXiv:2502.18709, sections 3.3 and 3.4, which has no experiment on rates.
"""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import jonline
from experiments.shared.options import SharedOptions, at_least
from experiments.shared.outputs import as_text, dump, write
from experiments.structured import methods, slopes
from jonline import checks, comparators, structured
from jonline.core import Example, Stream
from jonline.sampling import bernoulli, uniform_index

SIGNAL = 0.9  # s

Learner = Literal["OSP, inverse-weighted", "OSP, pseudo-inverse"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SharedOptions):
    """Options of the rates."""

    rounds: int = 2**16
    """Rounds of the longest run, a multiple of 2^`halvings`."""
    windows: int = 1
    """Changes nothing here: sums are kept over whole runs."""
    data: Path | None = None
    """Changes nothing here: the data are drawn as they are played."""
    learners: tuple[Learner, ...] = tuple(slopes.RATES)
    """Estimates to play."""
    halvings: int = 6
    """The T played are `rounds` / 2^j, j = 0…`halvings`, those at which the rate is below 1."""
    num_classes: int = 2
    """Classes K, >= 2."""
    num_nuisances: int = 10
    """Features that say nothing, >= 1."""
    noise: tuple[float, ...] = (0.0, 0.1)
    """Probabilities r that a label is drawn anew, each in [0, 1]."""
    diameter: float = 20.0
    """B > 0: step sizes, ball, exploration and comparator."""

    def __post_init__(self):
        super().__post_init__()
        self.check(at_least(2), "num_classes")
        self.check(at_least(1), "num_nuisances", "halvings")
        parts = 2**self.halvings
        rule = f"be a multiple of 2^halvings = {parts}"
        checks.require(self.rounds % parts == 0, "--rounds", rule, self.rounds)
        self.check_some("noise")
        self.check(checks.probability, "noise")
        self.check(checks.positive, "diameter")

    @property
    def horizons(self) -> list[int]:
        """All T, ascending."""
        return [self.rounds >> j for j in range(self.halvings, -1, -1)]


def main(options: Options) -> None:
    """Plays both estimates for every T, finds the comparators; writes records, table, figure."""
    if options.smoke:
        few = {"seeds": min(options.seeds, 2), "halvings": min(options.halvings, 2)}
        options = dataclasses.replace(options, rounds=1024, diameter=2.0, **few)
    space = structured.multiclass(options.num_classes)
    rates = {name: explores(options, name, space) for name in options.learners}
    hindsight = find_comparators(options, space)

    def stream(point, data):
        del data
        return planted(options.num_classes, options.num_nuisances, noise=point["noise"])

    parts = []
    for name in options.learners:
        make = partial(
            methods.make,
            name=name,
            space=space,
            num_features=options.num_classes + options.num_nuisances,
            diameter=options.diameter,
            stream=stream,
            project=True,
        )
        measure = methods.measure(name, space)
        for T, explore in rates[name].items():
            result = jonline.sweep(
                make,
                measure,
                jonline.product_grid(noise=options.noise, explore=[explore]),
                num_rounds=T,
                num_seeds=options.seeds,
                key=jax.random.key(options.key),
                record_every=options.horizons[0],  # for all T, which share the program
                progress=True,
            )
            parts.append(_point(options, name, space, T, explore, result, hindsight))
    joint = xr.concat(parts, "point", join="exact").assign_attrs(num_classes=options.num_classes)
    rows = slopes.slopes(joint)
    title = f"K = {options.num_classes}, B = {options.diameter:g}, {options.seeds} seeds"
    title += ", standard errors"
    folder = write(
        options,
        table=rows,
        figure=slopes.draw(joint, rows, title),
        records=joint,
        checksums={"planted classes": "experiments.structured.osp_rates.planted"},
    )
    sums = slopes.by_horizon(joint)
    print(as_text(sums))
    dump(folder / "summary.json", {"slopes": rows, "horizons": sums})


def explores(options: Options, name: str, space: structured.OutputSpace) -> dict[int, float]:
    """Returns the theory's rate for every T at which it is below 1.

    Raises:
      ValueError: if that leaves fewer than two.
    """
    found = {}
    for T in options.horizons:
        asked = {"diameter": options.diameter, "radius": 1.0, "num_rounds": T}
        rate = methods.rates(name, space, **asked)[0]
        if rate.formula < 1:
            found[T] = rate.explore
    if len(found) < 2:
        raise ValueError(
            f"the exploration of {name} is below 1 at {len(found)} of the {len(options.horizons)} "
            "T; two are needed for a slope: use larger --rounds or a smaller --diameter"
        )
    return found


def planted(num_classes: int, num_nuisances: int, *, noise: Any = 0.0) -> Stream:
    """Returns the stream of the module's first lines: x (K + num_nuisances,), y (K,).

    Args:
      num_classes: K >= 2.
      num_nuisances: entries of u, >= 1.
      noise: r in [0, 1]; may be traced.
    """
    K = num_classes
    corners = (np.eye(K) - 1 / K) * np.sqrt(K / (K - 1))  # rows of norm 1
    rest = np.sqrt(1 - SIGNAL**2)
    classes = jnp.arange(K, dtype=jnp.int32)

    def draw(key, t):
        k_label, k_nuisance = jax.random.split(jax.random.fold_in(key, t))
        words = jax.random.bits(k_label, (3,), jnp.uint32)
        c, other = uniform_index(words[0], K), uniform_index(words[1], K)
        label = jnp.where(bernoulli(words[2], noise), other, c)
        u = jax.random.normal(k_nuisance, (num_nuisances,))
        u = u / jnp.maximum(jnp.sqrt(jnp.sum(u * u)), jnp.finfo(u.dtype).tiny)
        corner = jnp.sum(jnp.where((classes == c)[:, None], corners, 0.0), axis=0)
        x = jnp.concatenate([SIGNAL * corner.astype(u.dtype), rest * u])
        return Example(x, (classes == label).astype(u.dtype))

    return Stream(lambda key: key, draw)


def find_comparators(options: Options, space: structured.OutputSpace) -> xr.Dataset:
    """Returns the best model's loss and its gap, (noise, horizon, seed), in the ball of B/2.

    A run of T rounds meets the first T examples of the longest one of its seed.
    """
    shape = (len(options.noise), len(options.horizons), options.seeds)
    loss, gap = np.empty(shape), np.empty(shape)
    for i, noise in enumerate(options.noise):
        stream = planted(options.num_classes, options.num_nuisances, noise=np.float32(noise))
        for seed in range(options.seeds):
            x, y = comparators.examples(stream, jax.random.key(options.key), seed, options.rounds)
            x, y = np.asarray(x), np.asarray(y)
            for j, T in enumerate(options.horizons):
                best = comparators.best_linear(
                    space.surrogate, (x[:T], y[:T]), radius=options.diameter / 2, tolerance=1e-3
                )
                loss[i, j, seed], gap[i, j, seed] = best.loss, best.gap
    dims = ("noise", "horizon", "seed")
    return xr.Dataset(
        {"loss": (dims, loss), "gap": (dims, gap)},
        {"noise": [*options.noise], "horizon": options.horizons},
    )


def _point(
    options: Options,
    name: str,
    space: structured.OutputSpace,
    T: int,
    explore: float,
    result: jonline.SweepResult,
    hindsight: xr.Dataset,
) -> xr.Dataset:
    """Returns the sums over T rounds, (point, seed), a point for each noise."""
    best = hindsight.sel(horizon=T)
    target, expected, surrogate = (
        result.records[of].sum(axis=-1, dtype=np.float64)
        for of in ("target_loss", "expected_target_loss", "surrogate_loss")
    )
    least = best["loss"].values
    values = {
        "realised_regret": target - least,
        "expected_regret": expected - least,
        "surrogate_excess": surrogate - least,
        "target_loss": target,
        "surrogate_loss": surrogate,
        "comparator_loss": least,
        "gap": best["gap"].values,
    }
    num = len(options.noise)
    bound = slopes.BOUNDS[name](space, diameter=options.diameter, radius=1.0, num_rounds=T)
    return xr.Dataset(
        {column: (("point", "seed"), value) for column, value in values.items()},
        {
            "learner": ("point", np.full(num, name, dtype=object)),
            "noise": ("point", [*options.noise]),
            "horizon": ("point", np.full(num, T)),
            "explore": ("point", np.full(num, explore)),
            "bound": ("point", np.full(num, float(bound))),
            "seed": np.arange(options.seeds),
        },
    )
