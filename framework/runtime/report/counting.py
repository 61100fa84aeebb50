"""What engines count of the groups whose handlers they run. A mistake of theirs is said once, and hurts no snapshot."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from framework.hooks.failures import plugin_failure
from framework.model.contracts import Counting, Runner

log = structlog.get_logger()


class EngineFigures:
    """Of one application's engines."""

    def __init__(self, runners: Mapping[str, Runner]) -> None:
        found: dict[str, object] = dict(runners)
        self._counting = {name: runner for name, runner in found.items() if isinstance(runner, Counting)}
        self._failed: set[str] = set()

    def of(self, group: str) -> dict[str, float]:
        """By the group's name in the settings."""
        figures: dict[str, float] = {}
        for name, runner in self._counting.items():
            try:
                figures.update(runner.figures(group))
            except BaseException as error:  # border: a plugin's
                plugin_failure(error)
                if name not in self._failed:
                    self._failed.add(name)
                    log.exception("engine counts unavailable", engine=name)
        return figures
