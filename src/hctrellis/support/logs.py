"""Conventions for log weights, shared by kernels and what is above them.

Tables hold logarithms to base 2. A forbidden tree has the log weight NEVER: finite, so that sums
and differences of such numbers stay finite too.
"""

LOG2E = 1.4426950408889634
NEVER = -1e300
FORBIDDEN = -1e290  # anything below is forbidden
LARGEST_LOG_WEIGHT = 1e12  # of all trees: beyond it, differences have fewer than three digits
LARGEST = 1e280  # log weights of splits beyond this, or below minus this, are refused
TIE = 1e-12  # log weights closer than this, relative to their size, are equal
