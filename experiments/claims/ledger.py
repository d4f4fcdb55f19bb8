"""Claims of papers and how they are judged; pure functions of what experiments recorded.

A verdict is `holds` or `does not hold` only where an interval over seeds lies wholly on one side;
where it does not, the claim cannot be tested with what was recorded.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats
import xarray as xr

from experiments.shared.records import Interval, mean_interval

UNDECIDED = "the interval straddles the end of the region"
HOLDS, FAILS, UNTESTED = "holds", "does not hold", "cannot be tested here"

Records = Mapping[str, xr.Dataset]  # by name of the experiment


class Verdict(NamedTuple):
    """What came out.

    Attributes:
      value: the statistic as text, with its interval.
      verdict: HOLDS, FAILS or UNTESTED.
      why: what decided, in a sentence.
    """

    value: str
    verdict: str
    why: str


class Claim(NamedTuple):
    """A claim of a paper.

    Attributes:
      id: its number in the ledger.
      claim: what the paper says.
      where: section, figure or table.
      test: the statistic, and the region in which its interval must lie for the claim to hold.
      needs: names of the experiments whose records it is judged by.
      judge: records to Verdict; it raises CannotTestError where they lack something.
    """

    id: str
    claim: str
    where: str
    test: str
    needs: tuple[str, ...]
    judge: Callable[[Records], Verdict]


class CannotTestError(Exception):
    """Records lack what a claim is about; the message says what."""


def settle(claim: Claim, records: Records, smoke: Sequence[str] = ()) -> Verdict:
    """Returns the verdict on a claim.

    Args:
      claim: the claim.
      records: by experiment; those that are missing make the claim untested.
      smoke: names of the experiments whose records are those of a smoke run.
    """
    missing = [name for name in claim.needs if name not in records]
    commands = " and ".join(f"python -m experiments {name}" for name in missing or claim.needs)
    if missing:
        return Verdict("", UNTESTED, f"run {commands} first")
    try:
        verdict = claim.judge(records)
    except CannotTestError as reason:
        return Verdict("", UNTESTED, str(reason))
    except KeyError:
        return Verdict("", UNTESTED, f"the records are of another version; run {commands} again")
    if set(claim.needs) & set(smoke):
        return verdict._replace(verdict=UNTESTED, why="a smoke run: its numbers mean nothing")
    return verdict


def paired(a: np.ndarray, b: np.ndarray, *, level: float = 0.95) -> Interval:
    """Returns mean and interval of a - b over seeds, the last axis; seeds share their streams."""
    return mean_interval(np.asarray(a, np.float64) - b, level=level)


def inside(interval: Interval, low: float = -np.inf, high: float = np.inf) -> str:
    """Returns HOLDS for an interval inside [low, high], FAILS for one outside, else UNTESTED.

    An interval without ends, as of one seed, decides nothing.
    """
    if low <= interval.low and interval.high <= high:
        return HOLDS
    return FAILS if interval.high < low or interval.low > high else UNTESTED


def all_of(verdicts: Sequence[str]) -> str:
    """Returns HOLDS if every verdict does, FAILS if one fails, else UNTESTED."""
    if FAILS in verdicts:
        return FAILS
    return HOLDS if verdicts and set(verdicts) == {HOLDS} else UNTESTED


def at_least(num: int, verdicts: Sequence[str]) -> str:
    """Returns HOLDS if `num` verdicts do, FAILS if too many fail for that, else UNTESTED."""
    if verdicts.count(HOLDS) >= num:
        return HOLDS
    return FAILS if len(verdicts) - verdicts.count(FAILS) < num else UNTESTED


def falls_then_rises(values: np.ndarray) -> Verdict:
    """Judges whether means (settings, seeds) fall to an inner minimum and rise after it.

    Both the first setting and the last one must lie above the lowest, each by its paired interval;
    at 97.5 %, for there are two. A lowest mean at an end does not hold if it lies below every other
    setting's by its interval, and decides nothing if it does not.
    """
    best = int(np.argmin(values.mean(axis=1)))
    ends = [
        f"{name} {shown(paired(values[end], values[best], level=0.975))}"
        for name, end in (("first", 0), ("last", -1))
    ]
    value = f"lowest at setting {best + 1} of {len(values)}; above it: {', '.join(ends)}"
    if best in (0, len(values) - 1):
        rest = [paired(one, values[best]) for i, one in enumerate(values) if i != best]
        if all(one.low > 0 for one in rest):
            return Verdict(value, FAILS, "the lowest mean is at an end of the range")
        return Verdict(value, UNTESTED, "the lowest mean is at an end, and is not alone there")
    sides = [inside(paired(values[end], values[best], level=0.975), low=0) for end in (0, -1)]
    why = {
        HOLDS: "both ends of the range are worse than the best inside",
        UNTESTED: "an end of the range cannot be told from the best inside",
    }
    return Verdict(value, all_of(sides), why[all_of(sides)])


def one_more_run(values: np.ndarray, *, level: float = 0.95) -> Interval:
    """Returns the mean over seeds and where one more run falls: mean ± t s sqrt(1 + 1/n)."""
    values, num = np.asarray(values, np.float64), np.shape(values)[-1]
    mean = values.mean(axis=-1)
    if num == 1:
        return Interval(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    half = scipy.stats.t.ppf((1 + level) / 2, num - 1) * np.sqrt(1 + 1 / num)
    half = half * values.std(axis=-1, ddof=1)
    return Interval(mean, mean - half, mean + half)


def slowdown(sums: np.ndarray, rounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns how fast sums (seeds, windows) grow with ln t early and late, and the factor in t.

    The span of `rounds` is cut at its geometric middle. Sums that grow like ln t have equal slopes
    in both halves, those that grow like t^p have a ratio of factor^p, factor = t_last / t_middle.

    Raises:
      CannotTestError: if there are fewer than three windows.
    """
    if len(rounds) < 3:
        raise CannotTestError("fewer than three windows were recorded")
    middle = int(np.argmin(np.abs(np.log(rounds[1:-1] ** 2.0 / rounds[0] / rounds[-1])))) + 1
    early = (sums[:, middle] - sums[:, 0]) / np.log(rounds[middle] / rounds[0])
    late = (sums[:, -1] - sums[:, middle]) / np.log(rounds[-1] / rounds[middle])
    return early, late, float(rounds[-1] / rounds[middle])


def shown(interval: Interval, digits: int = 3) -> str:
    """Returns an interval as text: mean [low, high]."""
    mean, low, high = (f"{float(one):.{digits}f}" for one in interval)
    return f"{mean} [{low}, {high}]"


def listed(values: dict[str, str]) -> str:
    """Returns one value for each data set as text."""
    return "; ".join(f"{name} {value}" for name, value in values.items())


def each(intervals: Mapping[str, Interval], digits: int = 3) -> str:
    """Returns named intervals as text."""
    return listed({name: shown(interval, digits) for name, interval in intervals.items()})


def why(verdict: str, holds: str, fails: str) -> str:
    """Returns the sentence that goes with a verdict."""
    return {HOLDS: holds, FAILS: fails, UNTESTED: UNDECIDED}[verdict]
