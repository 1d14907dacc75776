"""Chunks that are parts of files outside of the repository."""
