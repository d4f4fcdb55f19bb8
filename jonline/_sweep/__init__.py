"""The host's part: many blocks, their folder, and what comes of them."""
