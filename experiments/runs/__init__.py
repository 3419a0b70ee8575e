"""Runs of a trace: the driver, specs of experiments, and the folder that keeps their results."""
