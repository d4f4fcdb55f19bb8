"""Experiments on ordinal regression from directional feedback (arXiv:2512.19550)."""
