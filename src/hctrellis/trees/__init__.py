"""Formats of trees, one per file."""
