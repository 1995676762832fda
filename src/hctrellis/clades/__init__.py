"""Distributions over trees that are learned from samples of trees."""
