"""Writing chunks, manifests, a snapshot and its transaction log."""
