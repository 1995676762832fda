"""From a table to clusters, in scikit-learn's manner."""
