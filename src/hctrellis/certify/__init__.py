"""The best tree with a proof, or with how far from the best it can be."""

from hctrellis.certify.result import MapResult
from hctrellis.certify.solve import solve_map

__all__ = ["MapResult", "solve_map"]
