"""The Zarr face of a session: a zarr Store, and whole regions of arrays."""
