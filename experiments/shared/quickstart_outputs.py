"""The table of `quickstart` and its figure: ratings over rounds and `explore`; digits; tumours."""

import numpy as np

import jonline
from experiments.shared.figures import COLOURS, new_figure, plot_curve
from experiments.shared.records import bounds, mean_interval


def table(name: str, result: jonline.SweepResult) -> list[dict]:
    """Returns a row for each point: means over all rounds, the loss's interval."""
    end = {of: result.mean_curve(of)[..., -1] for of in ("loss", "zero_one", "violations")}
    rows = []
    for i, loss in enumerate(end["loss"]):
        p = {axis: f"{values[i]:g}" for axis, values in result.grid.items()}
        row = {"learner": name, "reg": p["reg"], "explore": p.get("explore", "")}
        row |= bounds("mean_loss", mean_interval(loss))
        right, crossed = (1 - end["zero_one"][i]).mean(), end["violations"][i].mean()
        rows.append(row | {"played_right": right, "violations": crossed})
    return rows


def draw(options, ratings: dict, classes: dict, rejecting: dict, tables: tuple):
    """Returns the figure of the sweeps by learner; `tables` are their data."""
    data, images, tumours = tables
    figure, panels = new_figure(nrows=2, ncols=2, figsize=(11, 8.6))
    left, right, last, fourth = panels.flat
    right.sharey(left)
    right.tick_params(labelleft=False)
    rounds = options.record_every * np.arange(1, options.windows + 1)
    draw_ratings(left, right, rounds, ratings, data)
    for result, told, colour in zip(
        classes.values(), ("right or wrong", "the digit"), COLOURS, strict=False
    ):
        errors = result.mean_curve("zero_one")[0]
        plot_curve(last, rounds, errors, colour=colour, label=f"OSP: observes {told}")
    for (name, result), told, colour in zip(
        rejecting.items(), ("asks for what it wants", "observes every label"), COLOURS, strict=False
    ):
        asked, wrong, rejected = (
            result.mean_curve(of)[0] for of in ("asked", "misclassified", "rejected")
        )
        risk = wrong + options.cost * rejected
        plot_curve(fourth, rounds, risk, colour=colour, label=f"{name}: {told}; risk")
        if name == "DSAL":
            style = {"colour": colour, "linestyle": "--"}
            plot_curve(fourth, rounds, asked, label="DSAL: fraction of labels asked for", **style)
    title = f"Learning curves, {options.seeds} seeds, 95 % intervals"
    left.set(xscale="log", xlabel="round", ylabel="mean absolute error so far", title=title)
    right.set(xlabel="explore", title=f"After {options.rounds:,} rounds")
    last.set(xscale="log", ylim=(0, 1), xlabel="round", ylabel="error rate so far")
    last.set_title(f"OSP: which of ten digits is it? {len(images.y)} images")
    fourth.set(xscale="log", yscale="log", xlabel="round", ylabel="average so far")
    fourth.set_title(f"Malignant, benign, or rejected? {len(tumours.y)} tumours")
    for panel in panels.flat:
        panel.legend(frameon=False, fontsize=8)
    rows = f"{len(data.y)} rows, K = {data.num_classes}"
    figure.suptitle(f"Above, lecturer ratings ({data.name}): {rows}")
    return figure


def draw_ratings(left, right, rounds: np.ndarray, results: dict, data) -> None:
    """Draws the ordinal learners: curves on the left, their ends over `explore` on the right."""
    loss = {name: result.mean_curve("loss") for name, result in results.items()}
    grid = results["DFORD"].grid
    first = np.flatnonzero(grid["reg"] == grid["reg"][0])
    shown = first[np.linspace(0, len(first) - 1, min(3, len(first))).astype(int)]
    for i, colour in zip(shown, COLOURS[2:], strict=False):
        label = f"DFORD, explore = {grid['explore'][i]:g}: observes higher or not"
        plot_curve(left, rounds, loss["DFORD"][i], colour=colour, label=label)
    told = {"PRank": "the label", "PRIL": "an interval"}
    for (name, what), colour in zip(told.items(), COLOURS, strict=False):
        style = {"colour": colour, "linestyle": "--"}
        plot_curve(left, rounds, loss[name][0], label=f"{name}: observes {what}", **style)
        mean, low, high = mean_interval(loss[name][0, :, -1])
        right.axhline(mean, color=colour, linestyle="--", label=name)
        right.axhspan(low, high, color=colour, alpha=0.2, linewidth=0)
    labels = np.asarray(data.y)
    constant = min(np.mean(np.abs(labels - k)) for k in range(1, data.num_classes + 1))
    for panel in (left, right):
        panel.axhline(constant, color="0.5", linestyle=":", label="best constant label")
    regs = np.unique(grid["reg"])
    for k, (reg, marker) in enumerate(zip(regs, "osD^v<>ph*", strict=False)):
        points = np.flatnonzero(grid["reg"] == reg)
        end = mean_interval(loss["DFORD"][points, :, -1])
        right.errorbar(
            grid["explore"][points] + 0.012 * (k - (len(regs) - 1) / 2),
            end.mean,
            yerr=end.high - end.mean,
            fmt=marker,
            markersize=4,
            color=COLOURS[2 + k % 4],
            label=f"DFORD, reg = {reg:g}",
        )
