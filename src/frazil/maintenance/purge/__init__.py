"""What must not be there any more, taken out of all history: a path, or the message of a commit.

Snapshots keep their ids: their files are overwritten. See docs/design/018-rewriting.md.
"""
