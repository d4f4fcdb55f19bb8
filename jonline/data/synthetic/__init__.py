"""Data that is drawn: ordinal labels, structured outputs, documents."""
