"""The claims of arXiv:2502.18709 on late answers: theorems 4.3, 5.1, 5.2, G.2 and G.3.

The paper has no experiment with delays; these are its theorems on the stream of `osp_delay`. A
growth that a theorem promises is that of a bound: a regret that grows more slowly agrees with it,
one that grows faster for long would not.
"""

from functools import partial

from experiments.claims import osp_late_judges as judges
from experiments.claims.ledger import Claim
from experiments.claims.osp_late_judges import RATE
from experiments.structured import late, osp_delay

SMOKE = {"osp_delay": {"feedback": ("labels",), "methods": ("SOLID",)}}
PROMISES = {
    "4.3": ("from labels, ODAFTRL, fixed delay D", "O(min{D², D^(2/3) T^(1/3)})"),
    "5.1": ("inverse-weighted, ODAFTRL, fixed delay D", "O(√((K + D) T))"),
    "5.2": ("pseudo-inverse, ODAFTRL, fixed delay D", "O(D^(1/3) T^(2/3))"),
    "G.2": ("from labels, SOLID, any delays", "O(√(sum of delays) + τ*)"),
    "G.3": ("inverse-weighted, SOLID, any delays", "O(√(K T) + √(sum of delays) + τ*)"),
}
FORMAL = {"4.3": "E.2", "5.1": "F.1", "G.2": "G.2", "G.3": "G.3"}  # those with all constants


def _rows() -> list[Claim]:
    # fmt: off
    rows, needs = [], ("osp_delay",)
    for number, (setting, order) in PROMISES.items():
        _, _, over_rounds, over_delays = osp_delay.THEOREMS[judges.KEYS[number]]
        delays = "delays uniform up to D, " if number.startswith("G") else ""
        if number in FORMAL:
            rows.append(
                Claim(f"B13 {number} bound",
                    f"the expected surrogate regret is under its bound: {setting}",
                    f"theorem {FORMAL[number]}",
                    f"mean regret as a share of the bound, {delays}largest over D and T, 95 % over "
                    "all (Bonferroni): at most 1", needs, partial(judges.under_the_bound, number))
            )
        rows += [
            Claim(f"B13 {number} over T", f"the expected surrogate regret is {order}: {setting}",
                f"theorem {number}",
                f"slope of ln regret in ln T, {delays}at every D, 95 % over all (Bonferroni): at "
                f"most {over_rounds:.3g} + {RATE:g}", needs,
                partial(judges.grows_over_rounds, number)),
            Claim(f"B13 {number} over D", f"the expected surrogate regret is {order}: {setting}",
                f"theorem {number}",
                f"slope of ln regret in ln D, {delays}D >= {late.LATE}: at most "
                f"{over_delays:g} + {RATE:g}, the exponent of the term with D or τ* alone that the "
                "theorem has in full", needs, partial(judges.grows_over_delays, number)),
        ]
    # fmt: on
    return rows


CLAIMS = tuple(_rows())
