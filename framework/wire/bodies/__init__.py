"""Typed JSON bodies, one file a family. `shape.py` is how they are read and written."""
