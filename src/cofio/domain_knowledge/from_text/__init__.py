"""Knowledge rows from sentences: thresholds, correlations, quantities, times."""
