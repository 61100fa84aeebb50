"""Plans: what a seed draws before its run begins, and which pairs of a way and a fault its run brought together.

`ways.py` is where a way of consuming is registered, `faults/kinds.py` where a fault is. `turns.py` says whose turn it
is, `plan.py` draws the rest, `matrix.py` counts.
"""
