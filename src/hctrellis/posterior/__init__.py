"""Posteriors over trees: their questions and answers."""
