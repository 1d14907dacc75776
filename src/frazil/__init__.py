"""Icechunk repositories in Python."""
