"""How the claims of arXiv:1906.06166 are judged by what `reject_active` recorded.

Words are read as numbers: `SIMILAR` and `MUCH` are differences of a risk or of a fraction of all
rounds. Intervals are 95 % over all that a row compares (Bonferroni), paired over seeds.

A claim of DRAL has two readings, as its algorithm is printed and with the exact gradient of its
loss. The verdict is of the first; what the second would give is said beside it.
"""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from experiments.claims import ledger
from experiments.claims.ledger import FAILS, HOLDS, UNTESTED, CannotTestError, Records, Verdict
from experiments.reject import protocol
from experiments.reject.protocol import COSTS, DRAL, DSAL, DSOL, EXACT
from experiments.shared.records import Interval, select
from jonline.reject import theory

SIMILAR = 0.01  # "similar", "comparable", "the same": closer than this
MUCH = 0.05  # "significantly less": by more than this
EARLY = 0.1  # part of the run after which "goes down with t" begins
NUM_LABELS = 50  # numbers of labels at which risks are compared

Difference = Callable[[xr.Dataset, xr.Dataset], np.ndarray]


def run(records: Records, name: str, learner: str, cost: float) -> xr.Dataset:
    """Returns the runs of a learner on a data set at a cost, (seeds, windows)."""
    joint = records["reject_active"]
    found = select(joint, dataset=name, learner=learner, cost=float(cost))
    if not found.sizes["point"]:
        raise CannotTestError(f"reject_active has no records of {learner} on {name}, d = {cost:g}")
    return found


def curve(one: xr.Dataset, of: str) -> np.ndarray:
    """Returns the running average of a quantity, (seeds, windows)."""
    return protocol.curve(one, of)[0]


def at_end(of: str) -> Difference:
    """Returns the difference of a quantity's averages over the whole run, (seeds,)."""
    return lambda one, other: curve(one, of)[:, -1] - curve(other, of)[:, -1]


def at_equal_labels(one: xr.Dataset, other: xr.Dataset) -> np.ndarray:
    """Returns the mean difference of the risks so far at equal numbers of labels asked, (seeds,).

    The numbers are those that both came to, from the later of the two first windows on; one that
    stopped asking before is compared at the end of its run with the other's first window.
    """
    rounds = one["round"].values
    asked = [curve(run, "asked") * rounds for run in (one, other)]
    risk = [curve(run, "risk") for run in (one, other)]
    found = []
    for seed in range(len(risk[0])):
        first = max(labels[seed, 0] for labels in asked)
        last = min(labels[seed, -1] for labels in asked)
        labels = np.geomspace(max(min(first, last), 1), max(last, 1), NUM_LABELS)
        at = [np.interp(labels, n[seed], r[seed]) for n, r in zip(asked, risk, strict=True)]
        found.append(np.mean(at[0] - at[1]))
    return np.array(found)


def subject(records: Records, name: str) -> str:
    """Returns the data set to judge a claim on: that of the claim, or what stands in for it."""
    played = set(records["reject_active"]["dataset"].values)
    return "mnist_4_9" if name == "gisette" and "gisette" not in played else name


def stands_in(records: Records, name: str, verdict: Verdict) -> Verdict:
    """Returns the verdict, withheld where the paper speaks of Gisette and others stand for it."""
    if subject(records, name) == name:
        return verdict
    reason = f"Gisette is not at hand; on MNIST's 4 and 9 instead: {verdict.verdict}"
    return verdict._replace(verdict=UNTESTED, why="; ".join([reason, verdict.why]))


def judged(
    name: str,
    find: Callable[[Records, str, str], dict[str, np.ndarray]],
    low: float = -np.inf,
    high: float = np.inf,
    *,
    both: bool = True,
) -> Callable[[Records], Verdict]:
    """Returns the judge of values over seeds that must all lie in [low, high] in the mean.

    `find` takes the records, the data set and the name of DRAL, and returns the values; `both` says
    whether DRAL is among what it compares.
    """

    def settle(records: Records, dral: str) -> tuple[str, dict[str, Interval]]:
        values = find(records, subject(records, name), dral)
        level = 1 - 0.05 / len(values)
        found = {
            key: ledger.paired(one, np.zeros_like(one), level=level) for key, one in values.items()
        }
        return ledger.all_of([ledger.inside(one, low, high) for one in found.values()]), found

    def judge(records: Records) -> Verdict:
        verdict, found = settle(records, DRAL)
        counts = [ledger.inside(one, low, high) for one in found.values()]
        reason = f"{counts.count(HOLDS)} of {len(counts)} hold, {counts.count(FAILS)} do not"
        if both:
            try:
                reason += f"; with DRAL's exact gradient: {settle(records, EXACT)[0]}"
            except CannotTestError as error:
                reason += f"; with DRAL's exact gradient: {error}"
        value = "; ".join(f"{key} {ledger.shown(one, 4)}" for key, one in found.items())
        return stands_in(records, name, Verdict(value, verdict, reason))

    return judge


def against(
    name: str,
    difference: Difference,
    pairs: Sequence[tuple[str, str]],
    low: float = -np.inf,
    high: float = np.inf,
    *,
    costs: Sequence[float] = COSTS,
) -> Callable[[Records], Verdict]:
    """Returns the judge of pairs of learners at every cost."""

    def find(records, found_name, dral):
        def of(learner, cost):
            return run(records, found_name, dral if learner == DRAL else learner, cost)

        return {
            f"{one} - {other}, d={cost:g}": difference(of(one, cost), of(other, cost))
            for one, other in pairs
            for cost in costs
        }

    return judged(name, find, low, high, both=any(DRAL in pair for pair in pairs))


def with_cost(
    name: str, of: str, learners: Sequence[str], *, rises: bool
) -> Callable[[Records], Verdict]:
    """Returns the judge of whether a quantity rises (or falls) from each cost to the next."""

    def find(records, found_name, dral):
        return {
            f"{learner}, d={before:g} to {after:g}": at_end(of)(
                run(records, found_name, dral if learner == DRAL else learner, after),
                run(records, found_name, dral if learner == DRAL else learner, before),
            )
            for learner in learners
            for before, after in zip(COSTS, COSTS[1:], strict=False)
        }

    low, high = (0, np.inf) if rises else (-np.inf, 0)
    return judged(name, find, low, high, both=DRAL in learners)


def falls(name: str, of: str, learners: Sequence[str]) -> Callable[[Records], Verdict]:
    """Returns the judge of whether a running average is lower at the end than early in a run."""

    def find(records, found_name, dral):
        found = {}
        for learner in learners:
            for cost in COSTS:
                one = run(records, found_name, dral if learner == DRAL else learner, cost)
                rounds, average = one["round"].values, curve(one, of)
                early = int(np.searchsorted(rounds, EARLY * rounds[-1]))
                found[f"{learner}, d={cost:g}"] = average[:, -1] - average[:, early]
        return found

    return judged(name, find, high=0, both=DRAL in learners)


def bound_says_nothing(records: Records) -> Verdict:
    """Compares the bound of corollary 7 with what no gradient can exceed."""
    del records
    slope, sq_radius = 2.0, 1.0
    many = np.array([1e2, 1e4, 1e6])
    bound = theory.local_regret_bound(slope=slope, sq_radius=sq_radius, num_rounds=many) / many
    most = theory.local_regret_bound(slope=slope, sq_radius=sq_radius, num_rounds=1, tight=True)
    falling = bool(np.all(bound > 3.2 * float(most)))
    return Verdict(
        f"bound / largest possible squared gradient at T = 1e2, 1e4, 1e6: "
        f"{', '.join(f'{one:.4f}' for one in bound / float(most))}",
        FAILS if falling else HOLDS,
        "it falls to 16/5 of what no gradient exceeds, not to 0, so it holds for every learner and "
        "promises no convergence",
    )


ALL = (DRAL, DSAL, DSOL)
