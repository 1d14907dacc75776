"""What verification found, put right where that takes no guessing."""
