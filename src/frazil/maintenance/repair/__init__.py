"""Repairs of problems that verification found, where no guessing is needed."""
