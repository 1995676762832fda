"""Markov chains over trees, at any temperature."""
