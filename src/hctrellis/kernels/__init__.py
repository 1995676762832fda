"""Compiled code. To import any of it loads Numba, once and whole (see `hctrellis.imports`)."""

from hctrellis.imports import load_numba

load_numba()
