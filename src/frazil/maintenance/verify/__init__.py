"""Verification of a repository against the specification."""
