"""What an output space is, and what all of them share.

Source: "Bandit and Delayed Feedback in Online Structured Prediction", arXiv:2502.18709, section 2.

Symbols:
  Y        the outputs: vertices (d,) of 0 and 1, K of them; conv(Y) their convex hull
  theta    scores (d,)
  mean     y^_Omega(theta), the regularised prediction in conv(Y)
  S        Fenchel-Young loss Omega*(theta) + Omega(y) - <theta, y>
  L        target loss, affine in the output, in [0, 1]
  gamma    L(y'; y) <= gamma ||y' - y||
  nu       least distance of two outputs
  lambda   strong convexity of Omega; all three in the norm of the space
  kappa    ||.||_2 <= kappa ||.||
  omega    E ||y~||^2 <= omega / q for the pseudo-inverse estimate y~ at exploration q
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax

from jonline import checks
from jonline.core import Array, PRNGKey
from jonline.structured.spaces import positive


class Mixture(NamedTuple):
    """A distribution over outputs: some of them by weight, and a share that is uniform over all.

    Attributes:
      atoms: (A, d) vertices; one may appear twice.
      weights: (A,), >= 0.
      uniform: share of the uniform distribution in [0, 1]; it and all weights sum to 1.
      units: (d,) weights of the unit vectors, which need no atoms; None without any.
    """

    atoms: Array
    weights: Array
    uniform: Any = 0.0
    units: Array | None = None


class SELF(NamedTuple):
    """A structured encoding loss function L(y'; y) = <y', V y + b> + <e, y> + c.

    Attributes:
      bilinear: V (d, d).
      on_output: b (d,).
      on_label: e (d,).
      constant: c.

    Source: arXiv:2502.18709, eq. (2), where <e, y> + c is a function c(y).
    """

    bilinear: np.ndarray
    on_output: np.ndarray
    on_label: np.ndarray
    constant: float


class Constants(NamedTuple):
    """What the theory needs to know of a space; symbols as in the module docstring.

    Attributes:
      gamma: slope of the target loss.
      nu: least distance of two outputs.
      strong_convexity: lambda.
      kappa: bound of the Euclidean norm by the norm of the space.
      omega: variance of the pseudo-inverse estimate.
    """

    gamma: float
    nu: float
    strong_convexity: float
    kappa: float
    omega: float


class OutputSpace(NamedTuple):
    """A finite set of outputs with its loss functions, and how to move between it and its hull.

    All functions are pure, for one lane, and of float arrays. `constants` may be replaced
    (`space._replace(constants=...)`); decoding reads `constants.nu`.

    Attributes:
      name: for messages, figures and tables.
      dim: d, static.
      size: K, number of outputs.
      loss: the target loss as a `SELF`.
      constants: gamma, nu, lambda, kappa, omega.
      uniform_mean: (d,) mean of the uniform distribution over Y.
      uniform_second_moment: Q (d, d), E[y y^T] under it.
      mean: `(theta) -> (d,)`, the regularised prediction argmax <theta, y> - Omega(y) over conv(Y),
        for finite theta of any size. Where a score is infinite it is the limit, or NaN if the space
        does not form it; where one is NaN it has a NaN. Such a mean draws an output of NaN, so that
        the run is reported as not finite.
      surrogate: `(theta, y) -> scalar`, the Fenchel-Young loss; affine in y, so that an unbiased
        estimate of y gives one of the loss; its gradient in theta is mean(theta) - y.
      target: `(output, y) -> scalar`, the target loss; affine in the output, so that the mean of a
        distribution gives its expectation.
      nearest: `(point of conv(Y)) -> (d,)`, an output next to it in the norm of the space.
      gap: `(output, point) -> scalar`, their distance in the norm of the space.
      decompose: `(point of conv(Y)) -> Mixture` with that mean and no uniform share.
      draw_uniform: `(key) -> (d,)`.
      dual: `(mixture, output) -> (d,)`, the vector u for which u (L(output; y) - <output, b> - c)
        is, over outputs drawn from the mixture, an unbiased estimate of y.
      encode: host function of labels, (N, ...) as the space's factory says, to vertices (N, d)
        float32; ValueError that names the row of one that is none.
    """

    name: str
    dim: int
    size: float
    loss: SELF
    constants: Constants
    uniform_mean: np.ndarray
    uniform_second_moment: np.ndarray
    mean: Callable[[Array], Array]
    surrogate: Callable[[Array, Array], Array]
    target: Callable[[Array, Array], Array]
    nearest: Callable[[Array], Array]
    gap: Callable[[Array, Array], Array]
    decompose: Callable[[Array], Mixture]
    draw_uniform: Callable[[PRNGKey], Array]
    dual: Callable[[Mixture, Array], Array]
    encode: Callable[[Any], np.ndarray]


def fenchel_young(
    conjugate: Callable[[Array], Array], offset: Callable[[Array], Array] | None = None
) -> Callable[[Array, Array], Array]:
    """Returns the Fenchel-Young loss `(theta, y) -> Omega*(theta) + Omega(y) - <theta, y>`.

    Args:
      conjugate: Omega*, `(theta) -> scalar`; its gradient is the regularised prediction.
      offset: an affine function that equals Omega at every output; None where that is 0.

    Source: arXiv:2502.18709, definition 2.2; the sum is optax's.
    """
    without_offset = optax.losses.make_fenchel_young_loss(lambda scores: conjugate(scores))

    def loss(theta, y):
        value = without_offset(theta, y)
        return value if offset is None else value + offset(y)

    return loss


def all_atoms(mixture: Mixture) -> tuple[Array, Array]:
    """Returns atoms (A, d) and weights (A,), those of `units` among them."""
    if mixture.units is None:
        return mixture.atoms, mixture.weights
    units = jnp.eye(len(mixture.units), dtype=mixture.atoms.dtype)
    atoms = jnp.concatenate([mixture.atoms, units])
    return atoms, jnp.concatenate([mixture.weights, mixture.units])


def measurement(loss: SELF, output: Array) -> Array:
    """Returns a = V^T y' + e, (d,) or (A, d): the target loss is <a, y> + <y', b> + c."""
    diagonal, shape = np.diagonal(loss.bilinear), np.shape(loss.bilinear)
    if shape[0] == shape[1] and np.array_equal(loss.bilinear, np.diag(diagonal)):
        product = output * jnp.broadcast_to(jnp.asarray(diagonal, float), jnp.shape(output))
    else:
        product = output @ jnp.asarray(loss.bilinear, float)
    return product + jnp.broadcast_to(jnp.asarray(loss.on_label, float), product.shape)


def cholesky_dual(
    loss: SELF, uniform_mean: np.ndarray, uniform_second_moment: np.ndarray
) -> Callable[[Mixture, Array], Array]:
    """Returns the `dual` of any space: A^+ a(output), with A = E[a a^T] over the mixture.

    a is the `measurement` of an output. A is inverted on the span of all measurements, an
    orthonormal basis of which is made here where they do not span R^d, so that no singular value
    has to be judged in a round. The mixture must have a uniform share > 0. Where e = 0 and V is
    invertible this is V^-1 P^+ y' with P = E[y' y'^T].

    Source: arXiv:2502.18709, section 3.4; lemma D.4 where the outputs do not span the space.
    Differs: the paper wants c(y) known. Where it is linear in y, as on the cube, it is measured
    together with <y', V y>.
    """
    checks.kind("loss", loss, SELF)
    parts = {name: checks.numbers(name, part) for name, part in loss._asdict().items()}
    loss = SELF(**parts)  # pyright: ignore[reportArgumentType]
    uniform_mean = checks.numbers("uniform_mean", uniform_mean)
    uniform_second_moment = checks.numbers("uniform_second_moment", uniform_second_moment)
    d = len(np.atleast_1d(uniform_mean))
    shapes = [np.shape(part) for part in (*loss, uniform_mean, uniform_second_moment)]
    wanted = [(d, d), (d,), (d,), (), (d,), (d, d)]
    checks.require(shapes == wanted, "loss and moments", f"have shapes {wanted}", shapes)
    V, e = loss.bilinear, loss.on_label
    cross = np.outer(V.T @ uniform_mean, e)
    at_uniform = V.T @ uniform_second_moment @ V + cross + cross.T + np.outer(e, e)
    values, vectors = np.linalg.eigh(at_uniform)
    basis = vectors[:, values > values[-1] * len(values) * 1e-12]
    spans = basis.shape[1] == d
    if not spans:  # the loss as it is in the basis
        loss = SELF(V @ basis, loss.on_output, e @ basis, loss.constant)
        at_uniform = basis.T @ at_uniform @ basis

    def dual(mixture, output):
        atoms, weights = all_atoms(mixture)
        rows = measurement(loss, atoms)
        moment = mixture.uniform * jnp.asarray(at_uniform, float)
        moment = moment + (rows * weights[:, None]).T @ rows
        solved = positive.solve(moment, measurement(loss, output))
        return solved if spans else jnp.asarray(basis, float) @ solved

    return dual


def checked_vertices(name: str, labels: Any, dim: int, is_output: Callable, rule: str) -> Any:
    """Returns labels (N, d) as float32 vertices.

    Args:
      name: of the space, for messages.
      labels: (N, d) of 0 and 1.
      dim: d.
      is_output: `(N, d) bool -> (N,) bool`, which rows are outputs.
      rule: what an output is, to follow "every row must".

    Raises:
      TypeError: if the labels are masked, or no numbers.
      ValueError: if the shape is another, or a row (which is named) is no output.
    """
    checks.unmasked("labels", labels)
    array = np.asarray(labels)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"labels of {name} must be numbers, got {array.dtype}")
    if array.ndim != 2 or array.shape[1] != dim:
        raise ValueError(f"labels of {name} must have shape (N, {dim}), got {array.shape}")
    good = ((array == 0) | (array == 1)).all(axis=1)
    good[good] = is_output(array[good] == 1)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(f"labels of {name}: every row must {rule}, got {array[row]} in row {row}")
    return array.astype(np.float32)


def check_theta(theta: Array, dim: int) -> None:
    """Raises ValueError at trace time unless the scores have shape (d,)."""
    if jnp.shape(theta) != (dim,):
        raise ValueError(f"theta must have shape ({dim},), got {jnp.shape(theta)}")


def hamming_loss(output: Array, y: Array) -> Array:
    """Returns the share of wrong labels, affine in both: (<1, y'> + <1, y> - 2 <y', y>) / d."""
    return jnp.mean(output + y - 2 * output * y)


def euclidean(output: Array, point: Array) -> Array:
    """Returns the L2 distance of two vectors."""
    return jnp.sqrt(jnp.sum((output - point) ** 2))


def ranks(values: Array) -> Array:
    """Returns the places of the values (d,) in descending order, 0…d-1; ties: lowest index first.

    By comparing all pairs, which for the sizes of output spaces is cheaper than sorting.
    """
    index = np.arange(len(values))
    tied_before = index < index[:, None]
    mine, theirs = values[:, None], values[None]
    before = (theirs > mine) | ((theirs == mine) & tied_before)
    return jnp.sum(before, axis=1, dtype=jnp.int32)
