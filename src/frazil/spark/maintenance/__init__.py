"""Maintenance whose reading, writing and deleting is done by executors."""
