"""Maintenance of repositories: each action is a plan, and its execution on an executor."""
