"""Rows and chunk rows into arrays: plan (layout), place, assemble, store, commit once."""
