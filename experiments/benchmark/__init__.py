"""Speed: contests against the same games written otherwise."""
