"""Experiments on active learning with rejection (arXiv:1906.06166)."""
