"""The same games in NumPy and numba, one family a file."""
