"""The claims of arXiv:1906.06166 ("Online Active Learning of Reject Option Classifiers") in the
results part of its section 4, its abstract and its corollary 7.

The 4s and 9s of MNIST stand in for Gisette, unless `reject_active` was played on it; of a stand-in
no verdict is drawn.
"""

import numpy as np

from experiments.claims import reject_judges as judges
from experiments.claims.ledger import Claim
from experiments.claims.reject_judges import ALL, MUCH, SIMILAR, against, at_end, at_equal_labels
from experiments.reject.protocol import COSTS, DRAL, DSAL, DSOL

TITLE = "Active learning with the option to reject"
SMOKE = {"reject_active": {"slope": (1.0,), "step_size": (0.1,)}}
NEEDS = ("reject_active",)
TITLES = {"gisette": "Gisette", "phishing": "Phishing", "svmguide1": "Guide"}
HARD = ("gisette", "phishing")
GUIDE = "svmguide1"


def _rows() -> list[Claim]:
    figures = {"gisette": "figure 4", "phishing": "figure 5", GUIDE: "figure 6"}
    rows = []

    def add(number, names, text, column, test, judge):
        for name in names:
            where = f"section 4, {figures[name]}, {column}"
            claim = f"on {TITLES[name]} {text}"
            rows.append(Claim(f"{number} {name}", claim, where, test, NEEDS, judge(name)))

    def less(one, other, what, region, costs=COSTS):
        of = f"{one}'s {what} less {other}'s"
        return f"{of}, d = {', '.join(f'{cost:g}' for cost in costs)}: {region}"

    below, above = "all below 0", "all above 0"
    near = f"all in [-{SIMILAR:g}, {SIMILAR:g}]"
    labels = "mean risk so far at equal numbers of labels"
    every = tuple(TITLES)

    column = "column 1"
    add("C1", HARD, "DSAL and DRAL have lower risk than DSOL for a given number of labels", column,
        less("DSAL's and DRAL", "DSOL", labels, below),
        lambda name: against(name, at_equal_labels, [(DSAL, DSOL), (DRAL, DSOL)], high=0),
    )  # fmt: skip
    add("C2", (GUIDE,), "DSAL has lower risk than DSOL for a given number of labels", column,
        less("DSAL", "DSOL", labels, below),
        lambda name: against(name, at_equal_labels, [(DSAL, DSOL)], high=0))  # fmt: skip
    add("C3", ("gisette", GUIDE), "DSAL has lower risk than DRAL for the same number of labels",
        column, less("DSAL", "DRAL", labels, below),
        lambda name: against(name, at_equal_labels, [(DSAL, DRAL)], high=0))  # fmt: skip
    add("C4", ("phishing",), "DSAL and DRAL have comparable risk for a given number of labels",
        column, less("DSAL", "DRAL", labels, near),
        lambda name: against(name, at_equal_labels, [(DSAL, DRAL)], -SIMILAR, SIMILAR))  # fmt: skip

    column = "column 2"
    early = "average at the end less that after a tenth of the run, three learners, three d"
    step = "average at a d less that at the next smaller one, three learners"
    add("C5", every, "the risk goes down with t", column, f"{early}: {below}",
        lambda name: judges.falls(name, "risk", ALL))  # fmt: skip
    add("C6", every, "the risk increases with d", column, f"{step}: {above}",
        lambda name: judges.with_cost(name, "risk", ALL, rises=True))  # fmt: skip
    add("C7", HARD, "DSAL has higher risk than DRAL for all d", column,
        less("DSAL", "DRAL", "risk", above),
        lambda name: against(name, at_end("risk"), [(DSAL, DRAL)], low=0))  # fmt: skip
    add("C8", (GUIDE,), "DSAL always has lower risk than DRAL", column,
        less("DSAL", "DRAL", "risk", below),
        lambda name: against(name, at_end("risk"), [(DSAL, DRAL)], high=0))  # fmt: skip
    add("C9", ("gisette", GUIDE), "DSAL has similar risk as DSOL", column,
        less("DSAL", "DSOL", "risk", near),
        lambda name: against(name, at_end("risk"), [(DSAL, DSOL)], -SIMILAR, SIMILAR))  # fmt: skip
    add("C10", ("phishing",), "DSOL is marginally better than DSAL and DRAL", column,
        less("DSAL's and DRAL", "DSOL", "risk", f"all in [0, {SIMILAR:g}]"),
        lambda name: against(name, at_end("risk"), [(DSAL, DSOL), (DRAL, DSOL)], 0, SIMILAR),
    )  # fmt: skip
    add("C11", ("phishing",), "DRAL has lower risk than DSOL (the paper says both this and C10)",
        column, less("DRAL", "DSOL", "risk", below),
        lambda name: against(name, at_end("risk"), [(DRAL, DSOL)], high=0))  # fmt: skip
    large = COSTS[1:]
    add("C12", (GUIDE,), "DRAL is comparable to DSOL as t becomes larger, except for d = 0.1",
        column, less("DRAL", "DSOL", "risk", near, large),
        lambda name: against(
            name, at_end("risk"), [(DRAL, DSOL)], -SIMILAR, SIMILAR, costs=large
        ))  # fmt: skip

    column = "column 3"
    active = (DRAL, DSAL)
    add("C13", every, "the fraction of labels asked for decreases with d", column,
        f"{step.replace('three', 'two')}: {below}",
        lambda name: judges.with_cost(name, "asked", active, rises=False))  # fmt: skip
    add("C14", HARD, "DSAL asks for significantly fewer labels than DRAL", column,
        less("DSAL", "DRAL", "fraction of labels", f"all at most -{MUCH:g}"),
        lambda name: against(name, at_end("asked"), [(DSAL, DRAL)], high=-MUCH))  # fmt: skip
    add("C15", (GUIDE,), "DSAL and DRAL ask for the same fraction of labels as t becomes larger",
        column, less("DSAL", "DRAL", "fraction of labels", near),
        lambda name: against(name, at_end("asked"), [(DSAL, DRAL)], -SIMILAR, SIMILAR))  # fmt: skip

    column = "column 4"
    add("C16", every, "the fraction of wrong labels goes down with t", column, f"{early}: {below}",
        lambda name: judges.falls(name, "misclassified", ALL))  # fmt: skip
    add("C17", every, "the fraction of wrong labels goes up with d", column, f"{step}: {above}",
        lambda name: judges.with_cost(name, "misclassified", ALL, rises=True))  # fmt: skip
    for names, costs, but in ((HARD, COSTS, ""), ((GUIDE,), large, ", except for d = 0.1")):
        add("C18", names, f"DRAL has the fewest wrong labels of the three{but}", column,
            less("DRAL", "DSOL's and DSAL", "fraction of wrong labels", below, costs),
            lambda name, costs=costs: against(
                name, at_end("misclassified"), [(DRAL, DSOL), (DRAL, DSAL)], high=0, costs=costs
            ))  # fmt: skip
    add("C19", HARD, "DSAL has as many wrong labels as DSOL", column,
        less("DSAL", "DSOL", "fraction of wrong labels", near),
        lambda name: against(name, at_end("misclassified"), [(DSAL, DSOL)], -SIMILAR, SIMILAR),
    )  # fmt: skip
    add("C20", (GUIDE,), "DSAL has fewer wrong labels than DSOL, except for d = 0.1", column,
        less("DSAL", "DSOL", "fraction of wrong labels", below, large),
        lambda name: against(
            name, at_end("misclassified"), [(DSAL, DSOL)], high=0, costs=large
        ))  # fmt: skip

    column = "column 5"
    add("C21", every, "the fraction rejected goes down with t", column, f"{early}: {below}",
        lambda name: judges.falls(name, "rejected", ALL))  # fmt: skip
    add("C22", every, "DRAL rejects more than DSAL and DSOL", column,
        less("DRAL", "DSAL's and DSOL", "fraction rejected", above),
        lambda name: against(name, at_end("rejected"), [(DRAL, DSAL), (DRAL, DSOL)], low=0),
    )  # fmt: skip
    add("C23", every, "the fraction rejected decreases with d", column, f"{step}: {below}",
        lambda name: judges.with_cost(name, "rejected", ALL, rises=False))  # fmt: skip

    column = "abstract, section 5"
    add("C24", every, "DSAL and DRAL need fewer labels than DSOL", column,
        less("DSAL's and DRAL", "DSOL", "fraction of labels", f"all at most -{MUCH:g}"),
        lambda name: against(
            name, at_end("asked"), [(DSAL, DSOL), (DRAL, DSOL)], -np.inf, -MUCH
        ))  # fmt: skip
    add("C25", every, "DSAL and DRAL perform similarly to DSOL", column,
        less("DSAL's and DRAL", "DSOL", "risk", f"all at most {SIMILAR:g}"),
        lambda name: against(
            name, at_end("risk"), [(DSAL, DSOL), (DRAL, DSOL)], -np.inf, SIMILAR
        ))  # fmt: skip
    rows.append(
        Claim(
            "C26",
            "the bound on the mean squared gradient is inversely proportional to T, so DSAL comes "
            "nearer to a stationary point as T increases",
            "corollary 7",
            "the bound, against the largest squared gradient there can be, as T grows (a formula, "
            "no interval): below it, and to 0",
            (),
            judges.bound_says_nothing,
        )
    )
    return rows


CLAIMS = tuple(_rows())
