"""The colours of plots and reports.

They are those of Okabe and Ito, which colour-blind people can tell apart, too; then some more, for
tables of many classes.
"""

from __future__ import annotations

BLUE, ORANGE = "#0072b2", "#d55e00"
PALETTE = (
    BLUE,
    ORANGE,
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#7a5195",
    "#8c6d31",
    "#222222",
    "#b0a500",
)
MISSING_COLOR = "#bdbdbd"  # of items without a class
