"""Simulated data: the toy shower Ginkgo, which makes jets whose history is known."""

from hctrellis.simulate.jets import Jet, Jets
from hctrellis.simulate.shower import PRESETS, Preset, ginkgo

__all__ = ["PRESETS", "Jet", "Jets", "Preset", "ginkgo"]
