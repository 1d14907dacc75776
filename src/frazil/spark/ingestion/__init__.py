"""Ingest, step by step: sources fit together (layout), work is cut (plan), tasks act."""
