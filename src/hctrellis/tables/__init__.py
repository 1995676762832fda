"""From a table to clusters with probabilities: `cluster`, and the estimator for scikit-learn."""
