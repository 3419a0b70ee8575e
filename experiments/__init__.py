"""Comparisons that can be trusted: workloads, measured and simulated runs, attribution, claim cards."""
