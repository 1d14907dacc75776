"""Uncommitted changes, and chunks as a session sees them."""
