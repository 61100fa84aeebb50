"""Reload: apply settings that changed on disk while the application runs, all or none.

Looks at the files four times a second, and at once when asked (SIGHUP). `settings/changes.py` decides what may change.
An error or a refused change leaves everything as it was, and is logged with its place.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from framework.errors import ConfigurationError, ConfigurationMistakes, Findings
from framework.mistakes import ChangeRefused, FileExposed, FileUnreadable
from framework.net.wakeup import Wakeup
from framework.runtime.app import App
from framework.runtime.logs import setup
from framework.runtime.plans.connect import check_keys, check_tls
from framework.settings.changes import Kind, SettingChange, changes
from framework.settings.schema import AppSettings
from framework.settings.sources import has_content, read

log = structlog.get_logger()

LOOK_SECONDS = 0.25
"""A change is read when two looks in a row see the same: a file written in place can be seen half-written."""

Stamp = tuple[tuple[int, ...] | None, ...]


class Reload:
    """One per application: `run` it beside the application, and `ask` from anywhere on the loop."""

    def __init__(self, app: App, load: Callable[[], AppSettings], files: Iterable[Path]) -> None:
        self._app, self._load, self._files = app, load, tuple(files)
        self._with_keys = {path for path in self._files if _has_keys(path)}
        self._bell = Wakeup()
        self._is_requested = False

    def ask(self) -> None:
        """Read the settings now, whether or not a file has changed."""
        self._is_requested = True
        self._bell.ring()

    async def run(self) -> None:
        """Until cancelled."""
        loop, workers = asyncio.get_running_loop(), self._app.world.workers
        applied = seen = await workers.run(self._stamp)
        while True:
            await self._bell.wait(loop.time() + LOOK_SECONDS)
            now = await workers.run(self._stamp)
            if self._is_requested or (now == seen != applied):
                self._is_requested = False
                await self.reload()
                applied = now  # what was written while we read is another change
            seen = now

    async def reload(self) -> bool:
        """Read all settings again and apply the live ones; False if they cannot be read or are refused."""
        try:
            settings = await self._app.world.workers.run(self._read)
            differences = changes(self._app.settings, settings)
            refused = [change for change in differences if change.kind is Kind.REFUSED]
            if refused:
                raise ConfigurationMistakes(_refusals(refused, settings))
            warned = self._app.settings.warnings
            self._app.adopt(settings)
        except ConfigurationError as error:
            findings = Findings()
            findings.note(error)
            for each in findings.mistakes:
                _refuse(each, self._app.settings)
            return False
        if any(change.path[0] == "logging" and change.kind is Kind.LIVE for change in differences):
            setup.configure(self._app.settings, first=self._app.log_processors)
        for change in differences:
            if change.kind is Kind.LIVE:
                log.info("setting changed", setting=change.name, change=str(change))
            else:
                log.warning("restart required", setting=change.name, change=str(change))
        for reason in settings.warnings:
            if reason not in warned:
                log.warning("setting unsafe", reason=reason)
        if not differences:
            log.info("settings unchanged")
        return True

    # On a thread

    def _read(self) -> AppSettings:
        for path in self._files:
            _check_owner(path)
        settings = self._load()
        with_keys = {path for path in self._files if _has_keys(path)}
        for path in sorted(self._with_keys - with_keys):
            why = "the file has no keys any more; it may have been cut off while it was written"
            raise ChangeRefused(f"{why}; to run with the defaults, restart", place=str(path))
        self._with_keys = with_keys
        check_keys(settings)
        check_tls(settings)
        return settings

    def _stamp(self) -> Stamp:
        return tuple(_state(path) for path in self._files)


def _refusals(refused: Iterable[SettingChange], settings: AppSettings) -> list[ConfigurationError]:
    why = "a reload cannot change security settings or code; restart, or undo the edit"
    return [ChangeRefused(f"{change}: {why}", place=settings.place(*change.path)) for change in refused]


def _refuse(mistake: ConfigurationError, running: AppSettings) -> None:
    place, reason = mistake.place or "unknown place", running.hidden.without_values(str(mistake))
    log.error("settings not reloaded", place=place, reason=reason)


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None  # between two names, or gone: the load will say
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode, found.st_uid


def _has_keys(path: Path) -> bool:
    """Whether it has any key with a value. If it cannot be read, the load reports that."""
    try:
        return has_content(read(path).values)
    except ConfigurationError:
        return True


def _check_owner(path: Path) -> None:
    """Settings choose what runs, so no other user may write them."""
    try:
        found = path.stat()
    except OSError as error:
        raise FileUnreadable(f"cannot be read: {error.strerror}", place=str(path)) from None
    if found.st_uid not in {0, os.getuid()}:
        raise FileExposed(
            f"belongs to user {found.st_uid}; it must belong to this process's user or root", place=str(path)
        )
    if found.st_mode & stat.S_IWOTH:
        raise FileExposed(f"others can write it; run: chmod o-w {path}", place=str(path))
