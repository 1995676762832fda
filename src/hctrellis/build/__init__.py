"""Sparse trellises made for a purpose: from simulators, searches and linkages, or grown to fit."""

from hctrellis.build.sources import from_beam_search, from_bootstrap, from_linkages, from_simulator

__all__ = ["from_beam_search", "from_bootstrap", "from_linkages", "from_simulator"]
