"""Every optimizer of the package keeps the rules of `OnlineOptimizer`."""

from functools import partial

import optax
import pytest

from jonline import optimizers
from jonline.testing import check_optimizer

OGD = optimizers.adaptive_ogd(2.0, project=True, offset=1e-8)
OPTIMIZERS = {
    "adaptive_ogd": OGD,
    "sgd": optimizers.from_optax(optax.sgd(0.1, momentum=0.5)),
    "adam, projected": optimizers.from_optax(
        optax.adam(0.1), partial(optimizers.project_ball, radius=1.0)
    ),
    "solid_ogd": optimizers.solid_ogd(2.0, gradient_bound=5.0, max_delay=3),
    "odaftrl": optimizers.odaftrl(2.0, delay=2),
    "odaftrl, no delay": optimizers.odaftrl(2.0, delay=0),
    "bold": optimizers.bold(OGD, delay=2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_keeps_the_contract(name):
    check_optimizer(OPTIMIZERS[name])
