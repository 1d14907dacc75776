"""Comparison of frazil with the live icechunk package: tours that both take."""
