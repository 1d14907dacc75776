"""Two sides changed something: detecting conflicts, solving and applying."""
