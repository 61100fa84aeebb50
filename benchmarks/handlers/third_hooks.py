"""The third of three plugins, each with a hook before and a hook after every delivery."""

from __future__ import annotations

from framework.hooks import hookimpl

seen = [0, 0]


@hookimpl
def before_consume() -> None:
    seen[0] += 1


@hookimpl
def after_consume() -> None:
    seen[1] += 1
