"""The output spaces, one a file, and what they share."""
