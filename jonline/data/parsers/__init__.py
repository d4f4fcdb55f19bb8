"""Readers of files of numbers."""
