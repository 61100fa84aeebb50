"""The plugin host. A plugin needs five names: `hookimpl`, `Skip`, `TryAgain`, `NotDone`, and the hooks' own, in
`specs.py`.
"""

from __future__ import annotations

from framework.hooks.markers import hookimpl as hookimpl
from framework.hooks.verdict import NotDone as NotDone
from framework.hooks.verdict import Skip as Skip
from framework.hooks.verdict import TryAgain as TryAgain

__all__ = ["NotDone", "Skip", "TryAgain", "hookimpl"]
