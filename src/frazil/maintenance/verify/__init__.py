"""Whether a repository is what the specification says it must be, and what can be repaired."""
