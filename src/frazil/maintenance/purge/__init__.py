"""Purges: a path, or the messages of commits, removed from all history.

Snapshots keep their ids: their files are overwritten. See docs/design/018-rewriting.md.
"""
