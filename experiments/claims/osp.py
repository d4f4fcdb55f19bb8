"""The claims of arXiv:2502.18709 ("Bandit and Delayed Feedback in Online Structured Prediction"),
in its abstract, its sections 1 to 3 and its appendices C and H; those of `osp_late` follow.

The paper played "theoretical values" of exploration and does not print them. What it says of
results is judged at the theory's own rates, at those for B = Cx = 1, and at the best of a grid: a
row each.
"""

from functools import partial

from experiments.claims import osp_judges as judges
from experiments.claims import osp_late
from experiments.claims import osp_theory_judges as formulas
from experiments.claims.ledger import Claim
from experiments.claims.osp_judges import COMPARABLE, RATE, RULES
from experiments.structured.methods import INVERSE_WEIGHTED, PSEUDO_INVERSE

TITLE = "Online structured prediction: bandit and delayed feedback"
SMOKE = {  # smallest runs that have something for most rows
    "osp_mnist": {"learners": (INVERSE_WEIGHTED, "Gappletron, hinge"), "rounds": 40, "windows": 2},
    "osp_multiclass": {
        "learners": (INVERSE_WEIGHTED, "Gappletron, logistic"),
        "num_classes": (6,),
        "explore": (0.1,),
        "rounds": 40,
        "windows": 2,
    },
    "osp_multilabel": {"explore": (0.1,), "rounds": 40, "windows": 2},
    "osp_rates": {"noise": (0.0,)},
} | osp_late.SMOKE
AT = {
    "theory": "at the theory's exploration, cut at 1",
    "unit": "at the theory's exploration for B = Cx = 1, cut at 1",
    "grid": "each at its own best exploration of a grid, chosen on the same runs",
}


def _rows() -> list[Claim]:
    # fmt: off
    fig_1, fig_2, fig_3 = "appendix H.1.1, figure 1", "appendix H.1.2, figure 2", "H.2, figure 3"
    loss = "cumulative target loss"
    rows = []
    for rule in RULES:
        rows.append(
            Claim(f"B1 {rule}", "OSP has the lowest misclassification rate on MNIST", fig_1,
                f"OSP's errors less those of each of the three others, {AT[rule]}, paired over "
                "seeds, 95 % over all (Bonferroni): all below 0", ("osp_mnist",),
                partial(judges.lowest_on_mnist, rule))
        )
    for rule in RULES:
        rows.append(
            Claim(f"B2 {rule}", "for K <= 24 OSP is comparable to the existing methods or better",
                f"{fig_2}, section 1",
                f"OSP's {loss} less {COMPARABLE:g} times that of each of the four others, as a "
                f"share of it, {AT[rule]}, K = 6, 12, 24 and four streams, paired over seeds, 95 % "
                "over all (Bonferroni): all below 0", ("osp_multiclass",),
                partial(judges.comparable_for_few_classes, rule))
        )
    for rule in RULES:
        rows.append(
            Claim(f"B3 {rule}",
                "for K = 48, 96 OSP's losses are larger than those of Gaptron with the hinge loss "
                "and Gappletron with the logistic loss", fig_2,
                f"OSP's {loss} less that of each of the two, as a share of it, {AT[rule]}, four "
                "streams, paired over seeds, 95 % over all (Bonferroni): all above 0",
                ("osp_multiclass",), partial(judges.behind_for_many_classes, rule))
        )
    for number, few, name, size in (
        ("B4", True, "inverse-weighted", "small"),
        ("B5", False, "pseudo-inverse", "large"),
    ):
        for rule in RULES:
            rows.append(
                Claim(f"{number} {rule}", f"when d is {size} the {name} estimate loses less", fig_3,
                    f"its {loss} less the other's, as a share of it, {AT[rule]}, at "
                    f"d = {10 if few else 24}, paired over seeds: below 0", ("osp_multilabel",),
                    partial(judges.better_estimate, rule, few=few))
            )
    rows.append(
        Claim("B6", "all other parameters were set according to theoretical values (with B = 50)",
            "appendix H.2, sections 3.3 and 3.4",
            "the theory's q with B = 50, T = 10 000, m = 5, Cx = 1: at most 1 for some d (exact)",
            (), formulas.rates_are_probabilities)
    )
    for number, learner, where, power in (
        ("7", INVERSE_WEIGHTED, "theorem 3.5", "T^(1/2)"),
        ("8", PSEUDO_INVERSE, "theorems 3.7 and D.4", "T^(2/3)"),
    ):
        rows += [
            Claim(f"B{number} bound",
                f"the expected surrogate regret of {learner} is under its bound", where,
                "mean over seeds of the expected regret, against the best model of the ball, as a "
                "share of the bound; largest over T, 95 % over all T and noises (Bonferroni): at "
                "most 1", ("osp_rates",), partial(judges.under_the_bound, learner)),
            Claim(f"B{number} rate", f"the expected surrogate regret of {learner} is O({power})",
                where,
                "slope of the log expected regret in log T, of each seed, on labels without noise: "
                f"at most the exponent + {RATE:g}", ("osp_rates",),
                partial(judges.grows_like_power, learner)),
        ]
    rows += [
        Claim(f"B9 {name}", f"randomized decoding has E[L] <= 4γ/(λν) S, {name}",
            "lemma 2.4, section 2.3",
            "largest E[L] / S of 1600 scores and all outputs, with the γ, ν and λ of the paper "
            "(classes: logarithms to base 2): at most 4γ/(λν) (exact up to rounding, no interval)",
            (), partial(formulas.decoding_bound, name))
        for name in ("multiclass", "multilabel", "m labels", "ranking")
    ]
    rows += [
        Claim(f"B10 {name}", f"λ > 4γ/ν holds, {name}", "section 3.1, after assumption 3.2",
            "a = 1 - 4γ/(λν): above 0 (exact)", (), partial(formulas.margin_is_positive, name))
        for name in ("multiclass", "multilabel", "ranking")
    ]
    rows += [
        Claim("B11", "tr(V⁻¹ Q⁺ V⁻ᵀ) is at most ω = d², d⁵/(4m(d-m)), m⁵",
            "corollary 3.8, appendix D.4", "the exact trace as a share of that: at most 1", (),
            formulas.traces_are_bounded),
        Claim("B12",
            "theorem 1 of van der Hoeven et al. gives a regret of O(K √T) against the logistic "
            "loss in base K", "appendix C",
            "what a model of two classes loses a round in base K, labels by a fair coin: at least "
            "the 1/2 that every learner loses (exact)", (), formulas.base_of_the_logarithm),
    ]
    # fmt: on
    return rows


CLAIMS = (*_rows(), *osp_late.CLAIMS)
