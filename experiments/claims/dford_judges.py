"""How the claims of arXiv:2512.19550 are judged by what the experiments recorded.

Every judge takes the records by experiment and returns a Verdict, or raises CannotTestError. Words
are read as numbers: `EQUAL` and `SMALL` are differences of the mean absolute error, in classes.
"""

import jax
import numpy as np
import xarray as xr

from experiments.claims import ledger
from experiments.claims.ledger import FAILS, HOLDS, UNTESTED, CannotTestError, Records, Verdict
from experiments.ordinal import dford_exploration as exploration
from experiments.ordinal import protocol
from experiments.shared.records import mean_curve, mean_interval, select
from jonline import hypotheses, kernels

ROUNDING = 1e-4  # moves of a mean loss that come from rounding alone
EQUAL = 0.01  # "equal": worse by less than this
SMALL = 0.1  # "a very small margin", "comparably"; a "considerable margin" is more


def run(records: Records, name: str, learner: str) -> xr.Dataset:
    """Returns the runs of a learner in `dford_curves`."""
    try:
        return protocol.select(records["dford_curves"], name, learner)
    except KeyError as error:
        raise CannotTestError(f"dford_curves has {error.args[0]}") from None


def final(records: Records, name: str, learner: str, variable: str = "loss") -> np.ndarray:
    """Returns the running mean of a metric at the end of `dford_curves`, (seeds,)."""
    return mean_curve(run(records, name, learner), variable)[..., -1]


def difference(records: Records, name: str, other: str, learner: str = "DFORD") -> np.ndarray:
    """Returns the mean loss of one learner less that of another, (seeds,)."""
    return final(records, name, learner) - final(records, name, other)


def played(records: Records, experiment: str) -> list[str]:
    """Returns the data sets of an experiment; raises CannotTestError unless they are all eight."""
    found = set(records[experiment]["dataset"].values)
    missing = [name for name in protocol.TASKS if name not in found]
    if missing:
        raise CannotTestError(f"{experiment} was not played on {', '.join(missing)}")
    return list(protocol.TASKS)


def stands_in(name: str, verdict: Verdict) -> Verdict:
    """Returns the verdict, withheld where the paper speaks of EachMovie."""
    if name != "movielens":
        return verdict
    reason = f"EachMovie was withdrawn by its owner; on MovieLens instead: {verdict.verdict}"
    return verdict._replace(verdict=UNTESTED, why=reason)


def beats_pril(records: Records) -> Verdict:
    """Counts the data sets on which DFORD's loss is below PRIL's."""
    names = played(records, "dford_curves")
    found = {name: mean_interval(difference(records, name, "PRIL")) for name in names}
    verdicts = [ledger.inside(one, high=0) for one in found.values()]
    verdict = ledger.at_least(len(found) - 2, verdicts)
    counts = f"below on {verdicts.count(HOLDS)}, above on {verdicts.count(FAILS)}"
    counts += f", undecided on {verdicts.count(UNTESTED)}"
    return Verdict(ledger.each(found), verdict, counts)


def against_prank(name: str, low: float, high: float, records: Records) -> Verdict:
    """Judges DFORD's loss less PRank's on a data set, by a region."""
    interval = mean_interval(difference(records, name, "PRank"))
    verdict = ledger.inside(interval, low, high)
    region = f"the region [{low:g}, {high:g}]"
    title = run(records, name, "DFORD")["title"].item()
    reason = ledger.why(verdict, f"within {region}", f"outside {region}") + f"; {title}"
    if "mslr_sample" in title:
        reason = f"only a sample of its rows is at hand; on that: {verdict}, {reason}"
        return Verdict(ledger.shown(interval), UNTESTED, reason)
    return stands_in(name, Verdict(ledger.shown(interval), verdict, reason))


def comparable(records: Records, learner: str = "DFORD") -> Verdict:
    """Judges the mean over data sets of a learner's loss less PRank's."""
    names = played(records, "dford_curves")
    gaps = np.stack([difference(records, name, "PRank", learner) for name in names])
    interval = mean_interval(gaps.mean(axis=0))
    verdict = ledger.inside(interval, high=SMALL)
    each = ledger.listed({name: f"{gap.mean():.3f}" for name, gap in zip(names, gaps, strict=True)})
    reason = ledger.why(verdict, "behind by little at most", "behind by more than a small margin")
    return Verdict(f"{ledger.shown(interval)}; {each}", verdict, reason)


def exploration_helps(records: Records) -> Verdict:
    """Judges whether the labels DFORD plays are better than its greedy ones."""
    found = {
        name: ledger.paired(
            final(records, name, "DFORD", "output_error"),
            final(records, name, "DFORD", "greedy_error"),
        )
        for name in played(records, "dford_curves")
    }
    verdict = ledger.all_of([ledger.inside(one, high=0) for one in found.values()])
    reason = ledger.why(
        verdict,
        "drawn labels are nearer to the truth",
        "drawn labels are farther from the truth, and the reported loss is that of the greedy "
        "label, on which the draw has no say",
    )
    return Verdict(ledger.each(found), verdict, reason)


def grid_of(
    records: Records, name: str, variable: str
) -> tuple[np.ndarray, np.ndarray, xr.Dataset]:
    """Returns `reg`s, `explore`s and a variable of `dford_grid` (reg, explore, seed, round)."""
    grid = records["dford_grid"]
    mine = grid.isel(point=np.flatnonzero(grid["dataset"] == name))
    regs, explores = (np.unique(mine[axis]) for axis in ("reg", "explore"))
    order = np.lexsort((mine["explore"], mine["reg"]))
    values = mine[variable].values[order]
    return regs, explores, values.reshape(len(regs), len(explores), *values.shape[1:])


def reg_matters(records: Records) -> Verdict:
    """Judges whether any count of any round window differs between values of `reg`.

    Powers of two scale the state exactly. Other values round apart from them here and there, which
    is not what the paper means by mattering: a mean loss that moves by less than 1e-4 does not.
    """
    names = played(records, "dford_grid")
    most, moved = {}, {}
    for name in names:
        apart = [
            np.max(np.abs(values - values[:1]))
            for variable in ("loss", "greedy_error", "output_error", "violations")
            for values in [grid_of(records, name, variable)[2].astype(np.int64)]
        ]
        most[name] = int(max(apart))
        loss = grid_of(records, name, "loss")[2].astype(np.float64).sum(axis=-1)
        rounds = float(records["dford_grid"]["round"][-1])
        moved[name] = float(np.ptp(loss.mean(axis=-1), axis=0).max() / rounds)
    regs = grid_of(records, names[0], "loss")[0]
    if len(regs) < 2:
        raise CannotTestError("dford_grid was played with a single reg")
    verdict = HOLDS if max(moved.values()) > ROUNDING else FAILS
    return Verdict(
        f"largest difference of any count of any window and seed: {max(most.values())}; of any "
        f"mean loss: {max(moved.values()):.2g}",
        verdict,
        "from a zero start with η = 1/(λt), v = λ(f, θ) obeys a rule without λ, clipped or not, so "
        "λ changes no label and no count"
        if verdict == FAILS
        else f"runs differ on {', '.join(name for name in names if moved[name] > ROUNDING)}",
    )


def losses_by_explore(records: Records, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the `explore`s of `dford_grid` and the mean losses (explores, seeds) over `reg`s."""
    _, explores, loss = grid_of(records, name, "loss")
    rounds = float(records["dford_grid"]["round"][-1])
    return explores, loss.astype(np.float64).sum(axis=-1).mean(axis=0) / rounds


def explore_matters(records: Records) -> Verdict:
    """Judges whether the best and the worst `explore` differ, on every data set."""
    verdicts, values = [], {}
    for name in played(records, "dford_grid"):
        explores, loss = losses_by_explore(records, name)
        num = len(explores)
        if num < 2:
            raise CannotTestError("dford_grid was played with a single explore")
        best, worst = np.argmin(loss.mean(axis=1)), np.argmax(loss.mean(axis=1))
        level = 1 - 0.05 / (num * (num - 1) / 2)
        interval = ledger.paired(loss[worst], loss[best], level=level)
        no_effect = ledger.inside(interval, -EQUAL, EQUAL) == HOLDS
        verdicts.append(HOLDS if interval.low > 0 else FAILS if no_effect else UNTESTED)
        values[name] = f"{explores[worst]:g} over {explores[best]:g}: {ledger.shown(interval)}"
    verdict = ledger.all_of(verdicts)
    return Verdict(
        ledger.listed(values),
        verdict,
        f"a difference shows on {verdicts.count(HOLDS)} of {len(verdicts)} data sets",
    )


def explore_is_best(records: Records) -> Verdict:
    """Judges whether no `explore` is better than the one of Table 1, on every data set."""
    verdicts, values = [], {}
    for name in played(records, "dford_grid"):
        explores, loss = losses_by_explore(records, name)
        theirs = np.flatnonzero(np.isclose(explores, protocol.TASKS[name].explore))
        if not len(theirs):
            raise CannotTestError(f"dford_grid was not played at the explore of Table 1 on {name}")
        level = 1 - 0.05 / max(len(explores) - 1, 1)
        others = [i for i in range(len(explores)) if i != theirs[0]]
        over = {i: ledger.paired(loss[theirs[0]], loss[i], level=level) for i in others}
        verdicts.append(ledger.all_of([ledger.inside(one, high=EQUAL) for one in over.values()]))
        worst = max(others, key=lambda i, over=over: over[i].mean)
        values[name] = (
            f"{explores[theirs[0]]:g} over {explores[worst]:g}: {ledger.shown(over[worst])}"
        )
    verdict = ledger.all_of(verdicts)
    return Verdict(
        ledger.listed(values),
        verdict,
        f"lowest or equal on {verdicts.count(HOLDS)}, worse on {verdicts.count(FAILS)} of "
        f"{len(verdicts)} data sets",
    )


def truncation_curve(name: str, records: Records) -> Verdict:
    """Judges the loss over the budget, on a data set."""
    records_ = records["dford_truncation"]
    is_mine = (records_["dataset"] == name) & np.isfinite(records_["budget"])
    mine = records_.isel(point=np.flatnonzero(is_mine)).sortby("budget")
    if mine.sizes["point"] < 3:
        raise CannotTestError(f"dford_truncation has fewer than three budgets on {name}")
    loss = mean_curve(mine, "loss")[..., -1]
    verdict = ledger.falls_then_rises(loss)
    means = ", ".join(
        f"{budget:g}: {one.mean():.4f}"
        for budget, one in zip(mine["budget"].values, loss, strict=True)
    )
    return verdict._replace(value=f"{means}; {verdict.value}")


def memory(records: Records) -> Verdict:
    """Compares the numbers held by the truncated expansion and by one that keeps every round."""
    del records
    num_features, budget, rounds = 10, 2000, 3_000_000
    held = hypotheses.kernel(kernels.polynomial(3), budget, num_features).init()
    terms = sum(leaf.size for leaf in jax.tree.leaves(held))
    weights = kernels.num_monomials(num_features, 3)
    return Verdict(
        f"{terms:,} numbers for budget {budget:,}, {rounds * (num_features + 1):,} untruncated",
        HOLDS,
        f"by construction; but the {weights} weights of the kernel's monomials hold the same "
        "function untruncated",
    )


def nearest_protocol(records: Records, name: str) -> tuple[str, np.ndarray]:
    """Returns protocol and losses (explores, seeds, 10) at the rounds that the paper gives.

    The protocol is the one whose exploring rows are nearest to the paper's.
    """
    mine = select(records["dford_exploration"], dataset=name)
    if not mine.sizes["point"]:
        raise CannotTestError(f"dford_exploration was not played on {name}")
    rounds = mine["round"].values
    if not set(exploration.EVERY * np.arange(1, 11)) <= set(rounds):
        raise CannotTestError(
            "dford_exploration was not recorded at 1 000, 2 000, …, 10 000 rounds"
        )
    found = {}
    for reading in np.unique([start.rpartition(", ")[0] for start in mine["learner"].values]):
        rows = [
            select(mine, learner=f"{reading}, {init} start", explore=explore)
            for init, explore in zip(
                ("random", "zeros", "zeros"), exploration.EXPLORES, strict=True
            )
        ]
        found[reading] = np.concatenate([mean_curve(row, "loss") for row in rows])
    best = min(found, key=lambda key: exploration.distance(name, found[key], rounds))
    return best, exploration.at_published(found[best], rounds)


def exploring_helps_early(name: str, records: Records) -> Verdict:
    """Judges the loss without exploration less the losses with it."""
    reading, loss = nearest_protocol(records, name)
    gaps = {
        f"{exploration.EXPLORES[i]:g} at {(when + 1) * exploration.EVERY}": ledger.paired(
            loss[0, :, when], loss[i, :, when]
        )
        for i in (1, 2)
        for when in (0, 9)
    }
    verdict = ledger.all_of([ledger.inside(gap, low=0) for gap in gaps.values()])
    value = ledger.each(gaps)
    reason = ledger.why(verdict, "lower with exploration", "not lower with exploration")
    reason += f"; {reading}, without exploration from a random start"
    return stands_in(name, Verdict(value, verdict, reason))


def table_2(name: str, records: Records) -> Verdict:
    """Judges the numbers of Table 2 after 10 000 rounds."""
    reading, loss = nearest_protocol(records, name)
    paper = np.asarray(exploration.PUBLISHED[name])
    verdicts, values = [], {}
    for i, explore in enumerate(exploration.EXPLORES):
        ours = ledger.one_more_run(loss[i, :, -1])
        low, high = float(ours.low), float(ours.high)
        within = low <= paper[i, -1] <= high
        verdicts.append(UNTESTED if np.isnan(low) else HOLDS if within else FAILS)
        values[f"{explore:g}"] = f"paper {paper[i, -1]:.3f}, ours {ledger.shown(ours)}"
    apart = np.abs(loss.mean(axis=1) - paper).mean(axis=1)
    reason = "mean |ours - paper| over the ten rounds: " + ", ".join(f"{one:.3f}" for one in apart)
    reason += f"; {reading}, the nearest of the protocols tried"
    return stands_in(name, Verdict(ledger.listed(values), ledger.all_of(verdicts), reason))
