"""Parameters from data: maximum marginal likelihood.

`fit` maximises the sum of log Z over data sets; `NegativeLogLikelihood` is the function that it
minimises, for use with any other minimiser.
"""

from hctrellis.fit.cost import NegativeLogLikelihood
from hctrellis.fit.run import Fit, fit

__all__ = ["Fit", "NegativeLogLikelihood", "fit"]
