"""The files of a repository: bytes to columns and back, without I/O."""
