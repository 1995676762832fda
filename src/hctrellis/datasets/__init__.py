"""Small data sets that come with the package."""

from hctrellis.datasets.bacteria import Burtin, burtin

__all__ = ["Burtin", "burtin"]
