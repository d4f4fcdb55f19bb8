"""One module per figure or table, run from a checkout: `python -m experiments`."""
