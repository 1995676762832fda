"""The two colours of plots and reports.

They are two of Okabe and Ito's, which people who see colours differently tell apart.
"""

from __future__ import annotations

BLUE, ORANGE = "#0072b2", "#d55e00"
