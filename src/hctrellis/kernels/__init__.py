"""Compiled code only: arrays and scalars in, arrays out."""
