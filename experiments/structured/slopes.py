"""Slopes, sums and figure of `osp_rates`: how what is lost grows with the number of rounds.

Source: arXiv:2502.18709, theorems 3.5 and D.4 and their proofs.
"""

import itertools
from typing import Any

import numpy as np
import xarray as xr

from experiments.shared.figures import COLOURS, new_figure
from experiments.shared.records import Interval, bounds, mean_interval, select
from experiments.structured import methods
from jonline.structured import theory

NOT_POSITIVE = "not above 0 for every T and seed"
VARIABLES = {  # of the records, and what the table calls them
    "expected_regret": "expected regret",
    "realised_regret": "realised regret",
    "surrogate_excess": "surrogate losses less the comparator's",
    "target_loss": "target loss",
}
MARKERS = dict(zip(VARIABLES, "osD^", strict=True))
RATES = {methods.INVERSE_WEIGHTED: 1 / 2, methods.PSEUDO_INVERSE: 2 / 3}
EXCESS_RATES = {methods.INVERSE_WEIGHTED: 3 / 4, methods.PSEUDO_INVERSE: 2 / 3}
BOUNDS = {
    methods.INVERSE_WEIGHTED: theory.inverse_weighted_bound,
    methods.PSEUDO_INVERSE: theory.pseudo_inverse_bound,
}


def slope(values: np.ndarray, horizons: np.ndarray) -> np.ndarray | None:
    """Returns the least-squares slope of log values (T, seeds) over log T, for each seed.

    None if a value is not above 0.
    """
    if np.any(values <= 0):
        return None
    log_T = np.log(horizons)
    weights = (log_T - log_T.mean()) / np.sum((log_T - log_T.mean()) ** 2)
    return weights @ np.log(values)


def slopes(joint: xr.Dataset) -> list[dict[str, Any]]:
    """Returns a row for each estimate, noise and variable: its slope with 95 % over seeds."""
    rows = []
    for name, noise in points(joint):
        one = select(joint, learner=name, noise=noise).sortby("horizon")
        for variable, title in VARIABLES.items():
            values = one[variable].values
            found = slope(values, one["horizon"].values)
            interval = [np.nan] * 3 if found is None else mean_interval(found)
            rows.append(
                {"learner": name, "noise": noise, "of": title}
                | bounds("slope", Interval(*map(float, interval)))
                | {
                    "theory": expected_power(name, variable),
                    "first_T": int(one["horizon"][0]),
                    "last_T": int(one["horizon"][-1]),
                    "note": NOT_POSITIVE if found is None else "",
                }
            )
    return rows


def expected_power(name: str, variable: str) -> float:
    """Returns the exponent of T in the theory's bound on a variable; NaN without one."""
    if variable.endswith("regret"):
        return RATES[name]
    return EXCESS_RATES[name] if variable == "surrogate_excess" else np.nan


def explored(one: xr.Dataset, num_classes: int) -> np.ndarray:
    """Returns what exploring costs in expectation, q T (K-1)/K, (points,), for labels in balance.

    A learner that is always right when it does not explore has no other target loss.
    """
    return one["explore"].values * one["horizon"].values * (1 - 1 / num_classes)


def by_horizon(joint: xr.Dataset) -> list[dict[str, Any]]:
    """Returns a row for each estimate, noise and T: means over seeds beside the bound."""
    rows = []
    costs = explored(joint, joint.attrs["num_classes"])
    for i in range(joint.sizes["point"]):
        one = joint.isel(point=i)
        regret = mean_interval(one["expected_regret"].values)
        what = {"learner": "learner", "noise": "noise", "T": "horizon", "explore": "explore"}
        means = ("realised_regret", "surrogate_excess", "comparator_loss", "target_loss")
        rows.append(
            {column: one[name].item() for column, name in what.items()}
            | bounds("expected_regret", Interval(*(end.item() for end in regret)))
            | {"bound": one["bound"].item(), "explored": costs[i]}
            | {"largest_gap": one["gap"].max().item()}
            | {column: one[column].mean().item() for column in means}
        )
    return rows


def points(joint: xr.Dataset) -> list[tuple[str, float]]:
    """Returns the estimates and noises that were played."""
    named = [dict.fromkeys(joint[axis].values) for axis in ("learner", "noise")]
    return [(str(name), float(noise)) for name, noise in itertools.product(*named)]


def draw(joint: xr.Dataset, rows: list[dict[str, Any]], title: str):
    """Returns the figure: what was lost over T with standard errors, beside the bound."""
    names, noises = (list(dict.fromkeys(values)) for values in zip(*points(joint), strict=True))
    figure, axes = new_figure(
        nrows=len(noises),
        ncols=len(names),
        figsize=(5.6 * len(names), 4.0 * len(noises) + 0.6),
        squeeze=False,
    )
    for name, noise in points(joint):
        panel = axes[noises.index(noise), names.index(name)]
        one = select(joint, learner=name, noise=noise).sortby("horizon")
        T, bound = one["horizon"].values, one["bound"].values
        panel.plot(T, bound, color="0.3", ls="--", label="bound of the theorem")
        for colour, (variable, title) in zip(COLOURS, VARIABLES.items(), strict=False):
            values = one[variable].values
            mean, spread = values.mean(axis=-1), values.std(axis=-1, ddof=min(1, values.shape[1]))
            found = next(
                row
                for row in rows
                if (row["learner"], row["noise"], row["of"]) == (name, noise, title)
            )
            label = title + ("" if found["note"] else f": T^{found['slope']:.2f}")
            panel.errorbar(
                T,
                mean,
                spread / np.sqrt(values.shape[1]),
                color=colour,
                label=label,
                marker=MARKERS[variable],
                markersize=5,
                fillstyle="none",
            )
        panel.set_title(f"{name}, r = {noise:g} (theory: T^{RATES[name]:.2f})", fontsize=10)
        panel.set_xscale("log", base=2)
        panel.set_yscale("symlog", linthresh=10)
        panel.axhline(0, color="0.6", lw=0.8)
        panel.legend(frameon=False, fontsize=7)
    for panel in axes[-1]:
        panel.set_xlabel("rounds T of the run")
    for panel in axes[:, 0]:
        panel.set_ylabel("sum over the run")
    figure.suptitle(title)
    return figure
