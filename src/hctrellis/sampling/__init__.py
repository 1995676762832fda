"""Posteriors by Markov chains, for more leaves than the exact trellis can hold."""
