"""Hypotheses: the models of f that learners of ordinal labels and rejection are given."""

from jonline.hypotheses.hypothesis import Hypothesis
from jonline.hypotheses.kernel import Expansion, kernel
from jonline.hypotheses.linear import linear
from jonline.hypotheses.polynomial import Polynomial, polynomial

__all__ = ["Expansion", "Hypothesis", "Polynomial", "kernel", "linear", "polynomial"]
