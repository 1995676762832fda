"""Trellises: which clusters and splits are considered."""
