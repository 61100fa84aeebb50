"""Versions of the hooks: which one a plugin may require, what is deprecated, and what replaces it.

A plugin that needs newer hooks says `HOOKS_VERSION = 5`, in its module or class. A deprecated hook is listed here for a
whole version before it is removed, and each plugin that still implements it is logged at every start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from framework.mistakes import PluginVersionWrong

VERSION = 4
"""Rises when a hook or an argument is added, and when one goes."""


@dataclass(frozen=True, slots=True)
class Deprecation:
    """One hook, or one argument of it, that goes."""

    hook: str
    argument: str = ""
    """Empty: the whole hook."""
    goes_in: int = 0
    instead: str = ""
    """What to write."""

    def __str__(self) -> str:
        what = f"argument {self.argument!r} of {self.hook}" if self.argument else f"hook {self.hook}"
        return f"the {what} goes in version {self.goes_in} of the hooks; {self.instead}"


DEPRECATED: tuple[Deprecation, ...] = ()


def check_version(plugin: object) -> None:
    """Raise where a plugin was written for hooks that are not here."""
    needed = getattr(plugin, "HOOKS_VERSION", VERSION)
    if not isinstance(needed, int) or isinstance(needed, bool) or needed < 1:
        raise PluginVersionWrong(f"HOOKS_VERSION is {needed!r}; write a number from 1 to {VERSION}, or remove it")
    if needed > VERSION:
        raise PluginVersionWrong(
            f"needs version {needed} of the hooks, but this is version {VERSION}; upgrade framework-app"
        )


def going(implemented: Mapping[str, Sequence[str]]) -> Iterator[Deprecation]:
    """What of these hooks and their arguments goes."""
    for each in DEPRECATED:
        arguments = implemented.get(each.hook)
        if arguments is not None and (not each.argument or each.argument in arguments):
            yield each
