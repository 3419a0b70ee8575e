"""What runs say: metrics by their definitions, comparisons with intervals, and whose improvement it is."""
