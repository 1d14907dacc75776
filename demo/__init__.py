"""The demo: files become versioned commits, queried, compared and drawn. Run by `make demo`."""
