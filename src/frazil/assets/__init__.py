"""Format meets objectstore: files fetched, put and remembered; chunks in bulk."""
