"""Potentials: models that weigh the splits of a tree, one per file; `base` is the contract."""
