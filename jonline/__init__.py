"""Online learning under weak feedback: whole sweeps in one compiled program."""

from jonline import (
    checks,
    comparators,
    data,
    delays,
    hypotheses,
    kernels,
    metrics,
    optimizers,
    oracles,
    ordinal,
    reject,
    sampling,
    streams,
    structured,
)
from jonline._sweep.api import product_grid, run, sweep
from jonline._sweep.result import NonFinite, SweepResult, load
from jonline._sweep.trace import Trace, trace
from jonline.core import Delay, Environment, Example, Info, Learner, Stream, step
from jonline.runtime import configure, join, versions

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
    "hypotheses",
    "join",
    "kernels",
    "load",
    "metrics",
    "optimizers",
    "oracles",
    "ordinal",
    "product_grid",
    "reject",
    "run",
    "sampling",
    "step",
    "streams",
    "structured",
    "sweep",
    "trace",
    "versions",
]
