"""The plugin host. A plugin needs three names: `hookimpl`, `Skip`, and the hooks' own, in `specs.py`."""

from __future__ import annotations

from framework.hooks.markers import hookimpl as hookimpl
from framework.hooks.verdict import Skip as Skip

__all__ = ["Skip", "hookimpl"]
