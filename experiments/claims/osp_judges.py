"""How the claims of arXiv:2502.18709 are judged by what the experiments recorded.

Every judge takes the records by experiment and returns a Verdict, or raises CannotTestError. The
paper does not say which rates of exploration it played; most judges look at one rule for them, a
key of `RULES`. Where all that is compared played uniformly, nothing is judged.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from experiments.claims import ledger
from experiments.claims.ledger import FAILS, HOLDS, UNTESTED, CannotTestError, Records, Verdict
from experiments.shared.records import Interval, mean_interval, select
from experiments.structured import methods, slopes
from experiments.structured.methods import INVERSE_WEIGHTED, PSEUDO_INVERSE

COMPARABLE = 1.1  # "comparable": at most so many times the other's loss
RATE = 0.05  # most that an exponent may be above the theory's

RULES = {"theory": methods.THEORY, "unit": methods.UNIT_THEORY, "grid": methods.BEST}
SET_UP = ("Gaptron, logistic", "Gappletron, logistic", "Gappletron, hinge")
ALL_OTHERS = ("Gaptron, hinge", *SET_UP)


def point(records: Records, experiment: str, **which: Any) -> xr.Dataset:
    """Returns the one point of an experiment with these coordinates."""
    found = select(records[experiment], **which)
    if found.sizes["point"] != 1:
        named = ", ".join(f"{name} {value}" for name, value in which.items())
        raise CannotTestError(f"{experiment} has {found.sizes['point']} points of {named}")
    return found.isel(point=0)


def loss(one: xr.Dataset) -> np.ndarray:
    """Returns the target loss of a point summed over all rounds, (seeds,)."""
    return one["target_loss"].values.sum(axis=-1, dtype=np.float64)


def uniform(one: xr.Dataset) -> bool:
    """Returns whether a point was played uniformly."""
    return float(one["explore"]) >= 1


def versus(
    mine: xr.Dataset, theirs: xr.Dataset, level: float, *, factor: float = 1.0
) -> tuple[Interval, str]:
    """Returns my loss less `factor` times theirs, as a share of theirs, and whether it is <= 0.

    The share is of their mean over seeds; UNTESTED where both were played uniformly.
    """
    a, b = loss(mine), loss(theirs)
    interval = Interval(*(end / b.mean() for end in ledger.paired(a, factor * b, level=level)))
    both = uniform(mine) and uniform(theirs)
    return interval, UNTESTED if both else ledger.inside(interval, high=0)


def told_uniform(points: dict[str, xr.Dataset]) -> str:
    """Returns who played uniformly, as the end of a sentence."""
    names = [name for name, one in points.items() if uniform(one)]
    return f"; uniformly played: {', '.join(names)}" if names else ""


def lowest_on_mnist(rule: str, records: Records) -> Verdict:
    """Judges OSP's errors less those of every other method, at a rule."""
    if records["osp_mnist"].attrs["dataset"] != "mnist":
        raise CannotTestError("osp_mnist was not played on MNIST")
    at = {"rule": RULES[rule]}
    mine = point(records, "osp_mnist", learner=INVERSE_WEIGHTED, **at)
    others = {name: point(records, "osp_mnist", learner=name, **at) for name in SET_UP}
    level = 1 - 0.05 / len(others)
    found = {name: versus(mine, one, level) for name, one in others.items()}
    verdict = ledger.all_of([result for _, result in found.values()])
    rounds = float(mine["round"][-1])
    rates = {name: f"{loss(one).mean() / rounds:.4f}" for name, one in others.items()}
    value = f"OSP {loss(mine).mean() / rounds:.4f}; {ledger.listed(rates)}; OSP less the other, as "
    value += "a share: " + ledger.listed(
        {name: ledger.shown(one) for name, (one, _) in found.items()}
    )
    reason = ledger.why(verdict, "below every other's", "above another's")
    return Verdict(value, verdict, reason + told_uniform({"OSP": mine} | others))


def streams_of(records: Records) -> list[tuple[int, float]]:
    """Returns the (n', r) of `osp_multiclass`; raises CannotTestError unless they are the four."""
    joint = records["osp_multiclass"]
    pairs = zip(joint["scale"].values, joint["noise"].values, strict=True)
    found = sorted({(int(scale), round(float(noise), 6)) for scale, noise in pairs})
    if found != [(2, 0.0), (2, 0.1), (4, 0.0), (4, 0.1)]:
        raise CannotTestError(f"osp_multiclass was played on (n', r) in {found} alone")
    return found


def over_classes(
    records: Records, rule: str, classes: Sequence[int], others: Sequence[str], factor: float
) -> tuple[dict[int, list[tuple[float, str]]], list[str], str]:
    """Compares OSP with other methods for all K and streams; 95 % over all pairs (Bonferroni).

    Returns:
      By K the pairs (share, text); the verdicts of "at most"; who played uniformly.
    """
    streams = streams_of(records)
    level = 1 - 0.05 / (len(streams) * len(classes) * len(others))
    found: dict[int, list[tuple[float, str]]] = {K: [] for K in classes}
    verdicts, capped = [], set()
    for scale, noise in streams:
        for K in classes:
            at = {"scale": scale, "noise": noise, "num_classes": K, "rule": RULES[rule]}
            mine = point(records, "osp_multiclass", learner=INVERSE_WEIGHTED, **at)
            for name in others:
                theirs = point(records, "osp_multiclass", learner=name, **at)
                interval, verdict = versus(mine, theirs, level, factor=factor)
                verdicts.append(verdict)
                share = float(interval.mean)
                text = f"{name} at n'={scale}, r={noise:g}: {ledger.shown(interval)}"
                found[K].append((share, text))
                capped |= {f"{name} (K={K})"} if uniform(theirs) else set()
                capped |= {f"OSP (K={K})"} if uniform(mine) else set()
    note = f"; uniformly played: {', '.join(sorted(capped))}" if capped else ""
    return found, verdicts, note


def counted(verdicts: list[str], others: Sequence[str], holds: str, fails: str) -> str:
    """Returns how many comparisons hold and fail, for each method; they vary fastest."""
    parts = {}
    for i, name in enumerate(others):
        mine = verdicts[i :: len(others)]
        parts[name] = f"{holds} in {mine.count(HOLDS)}, {fails} in {mine.count(FAILS)}"
        parts[name] += f" of {len(mine)}"
    return "; ".join(f"{name}: {part}" for name, part in parts.items())


def comparable_for_few_classes(rule: str, records: Records) -> Verdict:
    """Judges OSP's losses for K <= 24, at most 1.1 times the others'."""
    found, verdicts, note = over_classes(records, rule, (6, 12, 24), ALL_OTHERS, COMPARABLE)
    verdict = ledger.all_of(verdicts)
    value = ledger.listed({f"K={K}": f"worst {max(pairs)[1]}" for K, pairs in found.items()})
    return Verdict(value, verdict, counted(verdicts, ALL_OTHERS, "holds", "fails") + note)


def behind_for_many_classes(rule: str, records: Records) -> Verdict:
    """Judges OSP's losses for K = 48, 96, above those of the two named methods."""
    named = ("Gaptron, hinge", "Gappletron, logistic")
    found, below, note = over_classes(records, rule, (48, 96), named, 1.0)
    turned = {HOLDS: FAILS, FAILS: HOLDS, UNTESTED: UNTESTED}
    verdicts = [turned[one] for one in below]
    value = ledger.listed({f"K={K}": f"least {min(pairs)[1]}" for K, pairs in found.items()})
    return Verdict(
        value, ledger.all_of(verdicts), counted(verdicts, named, "above", "below") + note
    )


def better_estimate(rule: str, records: Records, *, few: bool) -> Verdict:
    """Judges figure 3 at the fewest or most labels: which estimate loses less."""
    labels = records["osp_multilabel"]["num_labels"].values
    d = int(labels.min() if few else labels.max())
    if d != (10 if few else 24):
        raise CannotTestError(f"osp_multilabel was not played for d = {10 if few else 24}")
    at = {"num_labels": d, "rule": RULES[rule]}
    inverse, pseudo = (
        point(records, "osp_multilabel", learner=name, **at)
        for name in (INVERSE_WEIGHTED, PSEUDO_INVERSE)
    )
    mine, theirs = (inverse, pseudo) if few else (pseudo, inverse)
    interval, verdict = versus(mine, theirs, 0.95)
    value = f"d={d}: {ledger.shown(interval)}; losses {loss(inverse).mean():.0f} inverse-weighted, "
    value += f"{loss(pseudo).mean():.0f} pseudo-inverse"
    reason = ledger.why(verdict, "it loses less", "it loses more")
    rates = f"q={float(inverse['explore']):.3g} and {float(pseudo['explore']):.3g}"
    if uniform(inverse) and uniform(pseudo):
        reason = "both are played uniformly, with the same outputs"
    return Verdict(value, verdict, f"{reason}; {rates}")


def rates_of(records: Records, learner: str) -> dict[float, xr.Dataset]:
    """Returns the records of `osp_rates` of an estimate by noise, T ascending."""
    joint = select(records["osp_rates"], learner=learner)
    if not joint.sizes["point"]:
        raise CannotTestError(f"osp_rates was not played with {learner}")
    return {
        float(noise): select(joint, noise=float(noise)).sortby("horizon")
        for noise in np.unique(joint["noise"])
    }


def under_the_bound(learner: str, records: Records) -> Verdict:
    """Judges the expected regret as a share of its bound, for all T and noises."""
    found = rates_of(records, learner)
    level = 1 - 0.05 / sum(one.sizes["point"] for one in found.values())
    verdicts, values = [], {}
    for noise, one in found.items():
        # the best model of the ball has at least loss - gap
        regret = one["expected_regret"].values + one["gap"].values
        share = mean_interval(regret / one["bound"].values[:, None], level=level)
        worst = Interval(*(end[np.argmax(share.high)] for end in share))
        verdicts.append(ledger.inside(worst, high=1))
        values[f"r={noise:g}"] = ledger.shown(worst)
    verdict = ledger.all_of(verdicts)
    return Verdict(
        ledger.listed(values), verdict, ledger.why(verdict, "under the bound", "over the bound")
    )


def grows_like_power(learner: str, records: Records) -> Verdict:
    """Judges the slope of the log regret over log T, where labels have no noise."""
    found = rates_of(records, learner)
    if 0.0 not in found:
        raise CannotTestError("osp_rates was not played without noise")
    one = found[0.0]
    horizons, power = one["horizon"].values, slopes.RATES[learner]
    values, noisy = one["expected_regret"].values, []
    for noise, other in found.items():
        if noise and slopes.slope(other["expected_regret"].values, horizons) is None:
            last = other["expected_regret"].values[-1].mean()
            said = f"with r={noise:g} the regret does not stay above 0 ({last:.0f} at the last T)"
            excess = slopes.slope(other["surrogate_excess"].values, horizons)
            if excess is not None:
                said += "; what is left to learn there, surrogate losses less the comparator's, "
                said += f"grows like T to {ledger.shown(mean_interval(excess))} (by the proof "
                said += f"at most {slopes.EXCESS_RATES[learner]:.2f})"
            noisy.append(said)
    each = slopes.slope(values, horizons)
    note = "; ".join(["", *noisy])
    if each is None:
        return Verdict("", UNTESTED, "the regret is not above 0 for every T and seed" + note)
    interval = mean_interval(each)
    verdict = ledger.inside(interval, high=power + RATE)
    costs = slopes.explored(one, int(records["osp_rates"].attrs["num_classes"]))
    spent = costs / values.mean(axis=-1)
    reason = ledger.why(verdict, "no faster than that", "faster than that")
    reason += f"; exploring, q T (K-1)/K, is {spent.min():.1%} to {spent.max():.1%} of the "
    reason += "regret, and the exponent mostly that of the q that the theorem sets"
    return Verdict(
        f"{ledger.shown(interval)} for T = {horizons[0]}…{horizons[-1]}", verdict, reason + note
    )
