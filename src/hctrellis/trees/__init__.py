"""Formats of trees, one a file."""
