"""The device's part: one block of lanes, from a round's equations to the compiled loop."""
