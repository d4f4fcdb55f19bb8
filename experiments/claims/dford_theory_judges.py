"""How what arXiv:2512.19550 proves is judged by what the experiments recorded."""

import numpy as np

from experiments.claims import ledger
from experiments.claims.dford_judges import final, played, run
from experiments.claims.ledger import FAILS, HOLDS, UNTESTED, Records, Verdict
from experiments.ordinal import protocol
from experiments.shared.records import Interval, mean_interval
from jonline import ordinal

LOGARITHMIC = 2.0  # most that the slope in ln t may grow by, late against early


def thresholds_in_order(records: Records) -> Verdict:
    """Judges whether no mean gap between neighbouring thresholds is negative at the end."""
    gaps_of = {}
    for name in played(records, "dford_curves"):
        one = run(records, name, "DFORD")
        thresholds = one["thresholds"].values[:, : int(one["num_classes"]) - 1]
        gaps_of[name] = np.diff(thresholds.astype(np.float64), axis=1)
    level = 1 - 0.05 / sum(gaps.shape[1] for gaps in gaps_of.values())
    verdicts, values = [], {}
    for name, gaps in gaps_of.items():
        interval = mean_interval(gaps, axis=0, level=level)
        crossed, shown_positive = interval.high < 0, interval.low >= 0
        verdicts.append(FAILS if crossed.any() else HOLDS if shown_positive.all() else UNTESTED)
        violations = final(records, name, "DFORD", "violations").mean()
        values[name] = (
            f"{shown_positive.sum()} of {gaps.shape[1]} gaps > 0, {crossed.sum()} < 0, "
            f"{violations:.2g} violations a round"
        )
    verdict = ledger.all_of(verdicts)
    return Verdict(
        ledger.listed(values),
        verdict,
        ledger.why(verdict, "every mean gap is positive", "a mean gap is negative")
        + "; lemma 1 speaks of one step from a mean gap of Kη/(1 - ηλ), which the tests check by "
        "summing over all draws",
    )


def regret_of(records: Records, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns DFORD's regrets (seeds, windows) in `dford_curves`, the rounds, and the bound."""
    one, task = run(records, name, "DFORD"), protocol.TASKS[name]
    rounds = one["round"].values
    bound = ordinal.regret_bound(
        int(one["num_classes"]), float(one["sq_radius"]), rounds, **task.point
    )
    return one["regularised_loss"].values.astype(np.float64).cumsum(axis=-1), rounds, bound


def under_the_bound(records: Records) -> Verdict:
    """Judges whether the mean regret stays under the bound of Theorem 2 at all recorded rounds."""
    verdicts, values = [], {}
    for name in played(records, "dford_curves"):
        sums, _, bound = regret_of(records, name)
        share = mean_interval(sums / bound, axis=0)
        worst = Interval(*(end[np.argmax(share.high)] for end in share))
        verdicts.append(ledger.inside(worst, high=1))
        values[name] = f"{worst.mean:.2g}"
    verdict = ledger.all_of(verdicts)
    reason = ledger.why(verdict, "under the bound, by far", "over the bound")
    return Verdict(ledger.listed(values), verdict, reason + "; the runs clip, the theorem does not")


def grows_like_log(records: Records) -> Verdict:
    """Judges whether the regret's slope in ln T stays."""
    verdicts, values, factor = [], {}, 0.0
    for name in played(records, "dford_curves"):
        sums, rounds, _ = regret_of(records, name)
        early, late, factor = ledger.slowdown(sums, rounds)
        verdicts.append(ledger.inside(ledger.paired(late, LOGARITHMIC * early), high=0))
        values[name] = f"{late.mean() / early.mean():.2f}"
    verdict = ledger.all_of(verdicts)
    return Verdict(
        ledger.listed(values),
        verdict,
        ledger.why(verdict, "the slope in ln T does not grow", "the slope in ln T grows")
        + f"; growth like T^p would show as {factor:.3g}^p",
    )


def comparator_is_zero(records: Records) -> Verdict:
    """Shows that the best fixed model of the regret is u = 0, whose loss is exactly 0."""
    del records
    losses = [
        float(ordinal.regularised_loss(0.0, np.zeros(num_classes - 1, np.float32), 0.0, y, 1.0))
        for num_classes in (2, 5, 11)
        for y in range(1, num_classes + 1)
    ]
    verdict = HOLDS if max(losses) == min(losses) == 0.0 else FAILS
    return Verdict(
        f"largest L_reg at u = 0 over labels: {max(losses):g}, exact",
        verdict,
        "but that best model is u = 0: L_reg is a sum of hinges without a margin and of squares, "
        "so never below 0, and it is 0 at u = 0. The regret is DFORD's own loss sum, and a learner "
        "that stays at 0 and names K for ever has regret 0",
    )
