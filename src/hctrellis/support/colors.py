"""The two colours of plots and reports.

They are two of Okabe and Ito's colours, which colour-blind people can tell apart, too.
"""

from __future__ import annotations

BLUE, ORANGE = "#0072b2", "#d55e00"
