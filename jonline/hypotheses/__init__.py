"""Hypotheses: the models of f that learners of ordinal labels and rejection are given."""

from jonline.hypotheses.linear import (
    Expansion,
    Hypothesis,
    Polynomial,
    kernel,
    linear,
    polynomial,
)

__all__ = ["Expansion", "Hypothesis", "Polynomial", "kernel", "linear", "polynomial"]
