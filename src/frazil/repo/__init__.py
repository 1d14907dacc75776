"""Versions and transactions: repositories, sessions, commits, history."""
