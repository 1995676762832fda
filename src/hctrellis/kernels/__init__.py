"""Compiled code. Importing any of it loads Numba, once and whole (`hctrellis.support.imports`)."""

from hctrellis.support.imports import load_numba

load_numba()
