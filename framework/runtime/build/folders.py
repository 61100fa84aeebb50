"""Folders that settings name, with `~` for the home directory; where there is none, the key is named that needs it."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from framework.errors import ConfigurationError
from framework.settings.schema import AppSettings


def folder_of(settings: AppSettings, *path: str) -> Path:
    """What the key at this path names. ConfigurationError where it is in a home directory that does not exist."""
    name: object = reduce(getattr, path, settings)
    assert isinstance(name, str), f"{path} is no text"
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise ConfigurationError(
            f"{'.'.join(path)}: {name} is in the home directory, and this process has none (HOME is not set); write an "
            "absolute path",
            place=settings.place(*path),
        ) from None
