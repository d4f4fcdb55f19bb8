"""What all figures share."""

import numpy as np

from experiments.shared.records import mean_interval

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito 2008


def plot_curve(axes, rounds: np.ndarray, curves: np.ndarray, *, colour: str, label: str, **style):
    """Draws the mean over seeds of `curves` (seeds, windows) and shades its 95 % interval."""
    mean, low, high = mean_interval(curves, axis=0)
    axes.plot(rounds, mean, color=colour, label=label, **style)
    axes.fill_between(rounds, low, high, color=colour, alpha=0.2, linewidth=0)


def new_figure(**kwargs):
    """Returns `(figure, axes)` of a figure that needs no screen; arguments as `Figure.subplots`."""
    import matplotlib.figure

    figsize = kwargs.pop("figsize", (7, 4.5))
    figure = matplotlib.figure.Figure(figsize=figsize, layout="constrained")
    axes = figure.subplots(**kwargs)
    for one in np.atleast_1d(axes).flat:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(axis="y", color="0.9")
        one.set_axisbelow(True)
    return figure, axes
