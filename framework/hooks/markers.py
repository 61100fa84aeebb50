"""The two marks by which pluggy knows a hook and its implementations."""

from __future__ import annotations

import pluggy

PROJECT = "framework_app"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
