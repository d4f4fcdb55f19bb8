"""The claims of arXiv:2512.19550 ("DFORD: Directional Feedback based Online Ordinal Regression
Learning"), in its abstract and its sections 5 to 7.

MovieLens stands in for EachMovie, so what the paper says of EachMovie alone is not tested.
"""

from functools import partial

import numpy as np

from experiments.claims import dford_judges as judges
from experiments.claims import dford_theory_judges as theory_judges
from experiments.claims.dford_judges import EQUAL, SMALL
from experiments.claims.dford_theory_judges import LOGARITHMIC
from experiments.claims.ledger import Claim
from experiments.ordinal import dford_exploration as exploration
from experiments.ordinal import protocol

TITLE = "DFORD: directional feedback"
SMOKE = {  # smallest runs that have something for most rows
    "dford_grid": {"datasets": ("bank",)},
    "dford_truncation": {"datasets": ("synthetic",), "budgets": (50,)},
    "dford_curves": {"datasets": ("bank",), "learners": ("DFORD", "PRank")},
    "dford_exploration": {"datasets": ("california",), "rounds": 10_000},
}


def _rows() -> list[Claim]:
    # fmt: off
    curves, grid, early = ("dford_curves",), ("dford_grid",), ("dford_exploration",)
    titles = {name: task.title for name, task in protocol.TASKS.items()}
    fig_4, on_prank = "section 7.6, figure 4", "DFORD's final MAE less PRank's, paired over seeds"
    rows = [
        Claim("A1", "DFORD outperforms PRIL for almost all but 2 data sets", fig_4,
            "final MAE less PRIL's, paired over seeds: below 0 on at least 6 of 8 (MovieLens for "
            "EachMovie; PRIL observes one or two neighbours, for its intervals are not published)",
            curves, judges.beats_pril)
    ]
    rows += [
        Claim(f"A2 {name}", f"on {titles[name]} DFORD is better than PRank or equal", fig_4,
            f"{on_prank}: at most {EQUAL:g}", curves,
            partial(judges.against_prank, name, -np.inf, EQUAL))
        for name in ("abalone", "mslr", "movielens", "bank", "computer_activity")
    ]
    rows += [
        Claim(
            f"A3 {name}", f"on {titles[name]} DFORD is better than PRank by a considerable margin",
            fig_4, f"{on_prank}: at most -{SMALL:g}", curves,
            partial(judges.against_prank, name, -np.inf, -SMALL))
        for name in ("mslr", "movielens")
    ]
    rows += [
        Claim(f"A4 {name}", f"on {titles[name]} DFORD is behind PRank, but by a very small margin"
            + (" (the paper says both this and A2)" if name == "bank" else ""), fig_4,
            f"{on_prank}: in [0, {SMALL:g}]", curves, partial(judges.against_prank, name, 0, SMALL))
        for name in ("telemonitoring", "bank", "california")
    ]
    rows += [
        Claim("A5", "DFORD performs comparably to PRank, which observes the labels",
            "abstract, section 7.6", f"{on_prank}, mean of the eight data sets: at most {SMALL:g}",
            curves, judges.comparable),
        Claim("A6",
            "DFORD does better than PRank where it does because exploration may pick the correct "
            "label", "section 7.6",
            "error of the played label less that of the greedy one, paired over seeds: below 0 on "
            "every data set", curves, judges.exploration_helps),
        Claim("A7", "DFORD depends on λ, which is chosen by a grid search",
            "section 7.4, figure 2, table 1",
            "largest difference between values of λ of any mean loss: above 1e-4, more than "
            "rounding (no interval)", grid, judges.reg_matters),
        Claim("A8", "DFORD depends on γ, which is chosen by a grid search", "section 7.4, figure 2",
            "MAE of the worst γ less that of the best, paired over seeds, 95 % over all pairs "
            "(Bonferroni): above 0 on every data set", grid, judges.explore_matters),
        Claim("A9", "the γ of Table 1 gives the lowest MAE", "table 1",
            "MAE at that γ less that at each other, paired over seeds, 95 % over all (Bonferroni): "
            f"at most {EQUAL:g} on every data set", grid, judges.explore_is_best),
    ]
    rows += [
        Claim(f"A10 {name}",
            f"on {titles[name]} the MAE falls and then rises with the truncation parameter δ",
            "section 7.5, figure 3",
            "mean MAE at the smallest and at the largest δ less that at the best δ, paired over "
            "seeds, 97.5 % each: both above 0, the best δ inside", ("dford_truncation",),
            partial(judges.truncation_curve, name))
        for name in ("abalone", "synthetic")
    ]
    rows += [
        Claim("A11", "truncation makes the kernel implementation more memory efficient", "abstract",
            "numbers held for 10 features, degree 3 and 3 000 000 rounds (a count, no interval)",
            (), judges.memory)
    ]
    rows += [
        Claim(f"A12 {name}",
            f"on {titles[name]} a nonzero γ mitigates the high error of γ = 0, also in initial "
            "rounds", "section 7.6, table 2",
            "MAE with γ = 0 less that with γ = 0.4 and 0.8, after 1 000 and 10 000 rounds, paired "
            "over seeds: all above 0", early, partial(judges.exploring_helps_early, name))
        for name in exploration.PUBLISHED
    ]
    rows += [
        Claim(f"A13 {name}", f"the numbers of Table 2 on {titles[name]}", "table 2",
            "where one more run falls with 95 % (mean ± t s √(1 + 1/n)), for each γ after 10 000 "
            "rounds: the paper's number within", early, partial(judges.table_2, name))
        for name in exploration.PUBLISHED
    ]
    rows += [
        Claim("A14", "DFORD keeps the thresholds ordered in expectation", "abstract, lemma 1",
            "mean over seeds of each gap of neighbouring thresholds after the last round, 95 % for "
            "all gaps of all data sets (Bonferroni): none below 0", curves,
            theory_judges.thresholds_in_order),
        Claim("A15", "the expected regret is at most 16 K² (R² + 1) ln K ln T / (λγ)", "theorem 2",
            "mean over seeds of the regret as a share of the bound, largest of all recorded "
            "rounds: at most 1", curves, theory_judges.under_the_bound),
        Claim("A16", "the expected regret grows like log T", "abstract, section 5",
            "slope of the regret in ln T late against early (span cut at its geometric middle), "
            f"paired over seeds: at most {LOGARITHMIC:g} times", curves,
            theory_judges.grows_like_log),
        Claim("A17", "the regret compares DFORD with the best model in hindsight",
            "section 5, theorem 2", "L_reg of the best fixed model (exact, no interval)", (),
            theory_judges.comparator_is_zero),
        Claim("A18",
            "gradients are clipped as g ← α g / ‖g‖ (and DFORD performs comparably to PRank)",
            "section 6.1",
            "final MAE with every gradient brought to norm α less PRank's, paired over seeds, mean "
            f"of the eight data sets: at most {SMALL:g}", curves,
            partial(judges.comparable, learner="DFORD, printed clip")),
    ]
    # fmt: on
    return rows


CLAIMS = tuple(_rows())
