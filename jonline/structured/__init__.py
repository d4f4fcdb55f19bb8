"""Structured prediction: classes, label sets, rankings; from labels or from bandit feedback."""

from jonline.structured import delayed_theory, theory
from jonline.structured.decoding import (
    decode,
    expected_output,
    explore,
    prob,
    sample,
    second_moment,
)
from jonline.structured.estimators import (
    Dual,
    Estimate,
    Estimator,
    full_information,
    inverse_weighted,
    pseudo_inverse,
    semi_bandit,
)
from jonline.structured.gaps import (
    GapMap,
    SurrogateGap,
    hinge_gap,
    logistic_gap,
)
from jonline.structured.gaptron import GapPrediction, gappletron, gaptron
from jonline.structured.learner import StructuredPrediction, osp
from jonline.structured.metrics import losses
from jonline.structured.spaces.birkhoff import sinkhorn
from jonline.structured.spaces.multiclass import (
    multiclass,
    multiclass_constants,
    multiclass_paper_constants,
)
from jonline.structured.spaces.multilabel import (
    multilabel,
    multilabel_constants,
    multilabel_paper_constants,
)
from jonline.structured.spaces.rankings import (
    rankings,
    rankings_constants,
    rankings_paper_constants,
)
from jonline.structured.spaces.space import SELF, Constants, Mixture, OutputSpace, cholesky_dual
from jonline.structured.spaces.subsets import subsets, subsets_constants, subsets_paper_constants
from jonline.structured.theory import gappletron_rate, gaptron_rate, gaptron_step_size

__all__ = [
    "SELF",
    "Constants",
    "Dual",
    "Estimate",
    "Estimator",
    "GapMap",
    "GapPrediction",
    "Mixture",
    "OutputSpace",
    "StructuredPrediction",
    "SurrogateGap",
    "cholesky_dual",
    "decode",
    "delayed_theory",
    "expected_output",
    "explore",
    "full_information",
    "gappletron",
    "gappletron_rate",
    "gaptron",
    "gaptron_rate",
    "gaptron_step_size",
    "hinge_gap",
    "inverse_weighted",
    "logistic_gap",
    "losses",
    "multiclass",
    "multiclass_constants",
    "multiclass_paper_constants",
    "multilabel",
    "multilabel_constants",
    "multilabel_paper_constants",
    "osp",
    "prob",
    "pseudo_inverse",
    "rankings",
    "rankings_constants",
    "rankings_paper_constants",
    "sample",
    "second_moment",
    "semi_bandit",
    "sinkhorn",
    "subsets",
    "subsets_constants",
    "subsets_paper_constants",
    "theory",
]
