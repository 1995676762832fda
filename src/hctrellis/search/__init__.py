"""Searches for good trees without the trellis: greedy, beam search, iterated local search."""

from hctrellis.search.beam import beam_search
from hctrellis.search.greedy import greedy
from hctrellis.search.local import SearchResult, local_search

__all__ = ["SearchResult", "beam_search", "greedy", "local_search"]
