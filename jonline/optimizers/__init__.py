"""Online optimizers: how a linear model moves on the gradients it is given, also late ones."""

from jonline.optimizers.bold import BoldState, bold
from jonline.optimizers.odaftrl import OdaftrlState, odaftrl
from jonline.optimizers.online import (
    OgdState,
    OnlineOptimizer,
    OptaxState,
    adaptive_ogd,
    from_optax,
    project_ball,
)
from jonline.optimizers.solid import SolidState, solid_ogd

__all__ = [
    "BoldState",
    "OdaftrlState",
    "OgdState",
    "OnlineOptimizer",
    "OptaxState",
    "SolidState",
    "adaptive_ogd",
    "bold",
    "from_optax",
    "odaftrl",
    "project_ball",
    "solid_ogd",
]
