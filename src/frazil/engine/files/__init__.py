"""Files of a repository: fetching, storing, caches, chunk objects, virtual chunks."""
