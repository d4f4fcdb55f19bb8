"""Experiments on structured prediction from bandit and delayed feedback (arXiv:2502.18709)."""
