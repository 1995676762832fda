"""Potentials: models that weigh the splits of a tree, one a file; `base` is the contract."""
