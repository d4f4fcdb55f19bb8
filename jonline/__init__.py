"""Online learning under weak feedback: whole sweeps in one compiled program."""

from jonline import checks, data, delays, hypotheses, metrics, oracles, ordinal, streams
from jonline.core import Delay, Environment, Example, Info, Learner, Stream, step
from jonline.runtime import configure, environment
from jonline.sweep import NonFinite, SweepResult, Trace, product_grid, run, sweep, trace

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
    "configure",
    "data",
    "delays",
    "environment",
    "hypotheses",
    "metrics",
    "oracles",
    "ordinal",
    "product_grid",
    "run",
    "step",
    "streams",
    "sweep",
    "trace",
]
