"""The plugin host. A plugin needs few names: `hookimpl`, `Skip`, `NothingFor`, `TryAgain`, `NotDone`, what some hooks
get or return (`ChunkSummary`, `BoxRequest`, `BoxAnswer`), and the hooks' own, in `specs.py`.
"""

from __future__ import annotations

from framework.hooks.markers import hookimpl as hookimpl
from framework.hooks.verdict import NotDone as NotDone
from framework.hooks.verdict import NothingFor as NothingFor
from framework.hooks.verdict import Skip as Skip
from framework.hooks.verdict import TryAgain as TryAgain
from framework.model.box import BoxAnswer as BoxAnswer
from framework.model.box import BoxRequest as BoxRequest
from framework.model.pulled import ChunkSummary as ChunkSummary

__all__ = ["BoxAnswer", "BoxRequest", "ChunkSummary", "NotDone", "NothingFor", "Skip", "TryAgain", "hookimpl"]
