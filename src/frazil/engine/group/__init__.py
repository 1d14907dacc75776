"""Group commit: one swap of the entry point makes the commits of many writers."""
