"""The entry point: branches, tags, the list of snapshots, settings, the ops log."""
