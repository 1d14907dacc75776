"""A repository, or a part of it, in another place."""
