"""How the theorems of arXiv:2502.18709 on late answers are judged by what `osp_delay` recorded."""

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.claims import ledger
from experiments.claims.ledger import FAILS, HOLDS, UNTESTED, CannotTestError, Records, Verdict
from experiments.shared.records import mean_interval
from experiments.structured import late, osp_delay
from experiments.structured.late import BIT, FEEDBACKS, LABELS, LATE, ODAFTRL, SOLID
from jonline import structured
from jonline.structured import delayed_theory

KEYS = {number: key for key, (number, *_) in osp_delay.THEOREMS.items()}
RATE = 0.05  # most that an exponent may be above the theorem's
BOUNDS: dict[tuple[str, str], Callable] = {
    (LABELS, ODAFTRL): delayed_theory.odaftrl_bound,
    (BIT, ODAFTRL): delayed_theory.odaftrl_inverse_weighted_bound,
    (LABELS, SOLID): delayed_theory.solid_bound,
    (BIT, SOLID): delayed_theory.solid_inverse_weighted_bound,
}


def runs_of(number: str, records: Records) -> list[dict[str, Any]]:
    """Returns what the method of a theorem lost: dicts of delay, T and regret, not capped at 1."""
    found = osp_delay.at_horizon(records["osp_delay"], *KEYS[number])
    found = [one for one in found if one["formula"] <= 1]
    if not found:
        feedback, learner, _ = KEYS[number]
        raise CannotTestError(f"osp_delay was not played with {learner} from {feedback}")
    return found


def bound_of(number: str, delay: int, num_rounds: int) -> float:
    """Returns the bound of a theorem; delays uniform on 0…D come to T D / 2 in the mean."""
    feedback, learner, _ = KEYS[number]
    task = FEEDBACKS[feedback]
    size: dict[str, Any] = dict(diameter=task.diameter, radius=late.RADIUS, extent=late.EXTENT)
    if learner == SOLID:
        size |= dict(total_delay=num_rounds * delay / 2, max_delay=delay)
    else:
        size |= dict(delay=delay)
    if (feedback, learner) != (LABELS, SOLID):
        size |= dict(num_rounds=num_rounds)
    space = structured.multiclass(task.num_classes)
    return float(BOUNDS[feedback, learner](space, **size))


def under_the_bound(number: str, records: Records) -> Verdict:
    """Judges the expected regret as a share of its bound, for all delays and T."""
    found = runs_of(number, records)
    gap = float(records["osp_delay"]["gap"].max())  # the best of the ball has loss - gap
    level = 1 - 0.05 / len(found)
    shares = [
        mean_interval((one["regret"] + gap) / bound_of(number, one["delay"], one["T"]), level=level)
        for one in found
    ]
    worst = int(np.argmax([one.high for one in shares]))
    verdict = ledger.all_of([ledger.inside(one, high=1) for one in shares])
    at = f"at D = {found[worst]['delay']}, T = {found[worst]['T']}"
    reason = ledger.why(verdict, "under the bound everywhere", "over the bound somewhere")
    return Verdict(f"largest {ledger.shown(shares[worst])} {at}", verdict, reason)


def grows_over_rounds(number: str, records: Records) -> Verdict:
    """Judges the slope of ln regret in ln T at every delay."""
    groups: dict[int, list] = {}
    for one in runs_of(number, records):
        groups.setdefault(one["delay"], []).append(one)
    groups = {D: group for D, group in groups.items() if len(group) > 1}
    if not groups:
        raise CannotTestError("no delay was played for two T without capped exploration")
    _, _, power, _ = osp_delay.THEOREMS[KEYS[number]]
    return _slopes(
        {f"D={D}": ([one["T"] for one in group], group) for D, group in groups.items()}, power
    )


def grows_over_delays(number: str, records: Records) -> Verdict:
    """Judges the slope of ln regret in ln D at the largest T."""
    found = runs_of(number, records)
    T = max(one["T"] for one in found)
    group = [one for one in found if one["T"] == T and one["delay"] >= LATE]
    if len(group) < 2:
        raise CannotTestError(f"fewer than two delays from {LATE} on were played")
    _, leading, _, power = osp_delay.THEOREMS[KEYS[number]]
    sizes = [one["delay"] for one in group]
    verdict = _slopes({f"D={min(sizes)}…{max(sizes)}, T={T}": (sizes, group)}, power)
    slope = late.slope(sizes, np.stack([one["regret"] for one in group]))
    side = {HOLDS: "within", FAILS: "above", UNTESTED: "not told from"}
    said = side[ledger.inside(slope, high=leading + RATE)]
    return verdict._replace(
        why=f"{verdict.why}; {said} the exponent {leading:.3g} of D in the leading term alone"
    )


def _slopes(groups: dict[str, tuple], power: float) -> Verdict:
    level = 1 - 0.05 / len(groups)
    slopes = {
        name: late.slope(sizes, np.stack([one["regret"] for one in group]), level=level)
        for name, (sizes, group) in groups.items()
    }
    verdict = ledger.all_of([ledger.inside(one, high=power + RATE) for one in slopes.values()])
    values = ledger.each(slopes, 2)
    return Verdict(values, verdict, ledger.why(verdict, "no faster than that", "faster than that"))
