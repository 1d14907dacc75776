"""The engine: versions and transactions over the files of a repository."""
