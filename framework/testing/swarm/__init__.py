"""Whole clusters under faults, seed by seed: `python -m framework.testing.swarm` (make sim)."""
