"""Rows into arrays: writes, statements that change rows, definitions of tables."""
