"""The ledger of what the papers claim, and its judges."""
