"""The audit plugin; `plugin.py` is all of it."""
