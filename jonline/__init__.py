"""Online learning under weak feedback: whole sweeps in one compiled program."""

from jonline import (
    checks,
    comparators,
    data,
    delays,
    hypotheses,
    metrics,
    optimizers,
    oracles,
    ordinal,
    reject,
    streams,
    structured,
)
from jonline._sweep.api import Trace, product_grid, run, sweep, trace
from jonline._sweep.partial import NonFinite
from jonline._sweep.result import SweepResult, load
from jonline.core import Delay, Environment, Example, Info, Learner, Stream, step
from jonline.runtime import configure, environment, join

__version__ = "0.1.0"

__all__ = [
    "Delay",
    "Environment",
    "Example",
    "Info",
    "Learner",
    "NonFinite",
    "Stream",
    "SweepResult",
    "Trace",
    "checks",
    "comparators",
    "configure",
    "data",
    "delays",
    "environment",
    "hypotheses",
    "join",
    "load",
    "metrics",
    "optimizers",
    "oracles",
    "ordinal",
    "product_grid",
    "reject",
    "run",
    "step",
    "streams",
    "structured",
    "sweep",
    "trace",
]
