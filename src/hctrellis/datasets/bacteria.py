"""Small data sets that come with the package.

`burtin`: sixteen bacteria and three antibiotics, published by Will Burtin in Scope, Fall 1951. The
minimum inhibitory concentration (MIC) is the amount of antibiotic that stops the growth of a
bacterium. In 1951 *Diplococcus pneumoniae* and *Streptococcus fecalis* bore the names they have in
the table; the first has been *Streptococcus pneumoniae* since 1974, the second *Enterococcus
faecalis* since 1984 (K. H. Schleifer, R. Kilpper-Bälz, Int. J. Syst. Bacteriol. 34, 1984).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hctrellis.support.types import FloatArray

_ANTIBIOTICS = ("Penicillin", "Streptomycin", "Neomycin")
_BACTERIA = (
    ("Aerobacter aerogenes", (870, 1, 1.6), "negative", "other"),
    ("Bacillus anthracis", (0.001, 0.01, 0.007), "positive", "other"),
    ("Brucella abortus", (1, 2, 0.02), "negative", "other"),
    ("Diplococcus pneumoniae", (0.005, 11, 10), "positive", "other"),
    ("Escherichia coli", (100, 0.4, 0.1), "negative", "other"),
    ("Klebsiella pneumoniae", (850, 1.2, 1), "negative", "other"),
    ("Mycobacterium tuberculosis", (800, 5, 2), "negative", "other"),
    ("Proteus vulgaris", (3, 0.1, 0.1), "negative", "other"),
    ("Pseudomonas aeruginosa", (850, 2, 0.4), "negative", "other"),
    ("Salmonella (Eberthella) typhosa", (1, 0.4, 0.008), "negative", "Salmonella"),
    ("Salmonella schottmuelleri", (10, 0.8, 0.09), "negative", "Salmonella"),
    ("Staphylococcus albus", (0.007, 0.1, 0.001), "positive", "Staphylococcus"),
    ("Staphylococcus aureus", (0.03, 0.03, 0.001), "positive", "Staphylococcus"),
    ("Streptococcus fecalis", (1, 1, 0.1), "positive", "Streptococcus"),
    ("Streptococcus hemolyticus", (0.001, 14, 10), "positive", "Streptococcus"),
    ("Streptococcus viridans", (0.005, 10, 40), "positive", "Streptococcus"),
)


@dataclass(frozen=True, eq=False)
class Burtin:
    """Burtin's table.

    Attributes
    ----------
    labels : tuple of str
        Names of the sixteen bacteria, as of 1951.
    columns : tuple of str
        Names of the three antibiotics.
    values : float64 array, shape (16, 3), read-only
        Minimum inhibitory concentrations.
    gram : tuple of str
        Gram stain of each bacterium, "positive" or "negative".
    genus : tuple of str
        Genus by the name of 1951, "other" where it is the only one of its genus.
    """

    labels: tuple[str, ...]
    columns: tuple[str, ...]
    values: FloatArray
    gram: tuple[str, ...]
    genus: tuple[str, ...]

    def log10_standardised(self) -> FloatArray:
        """log10 of the concentrations, each column shifted and scaled to mean 0, variance 1."""
        logs = np.log10(self.values)
        standardised: FloatArray = (logs - logs.mean(axis=0)) / logs.std(axis=0)
        return standardised


def burtin() -> Burtin:
    """Burtin's sixteen bacteria and three antibiotics, 1951.

    Examples
    --------
    >>> table = burtin()
    >>> table.values.shape
    (16, 3)
    >>> table.labels[3], table.values[3].tolist()
    ('Diplococcus pneumoniae', [0.005, 11.0, 10.0])
    """
    labels, rows, gram, genus = zip(*_BACTERIA, strict=True)
    values = np.array(rows, float)
    values.flags.writeable = False
    return Burtin(labels, _ANTIBIOTICS, values, gram, genus)
