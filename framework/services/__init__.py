"""Loops that ask `core` and obey. One loop a file; each owns its waiting and none of the decisions."""
