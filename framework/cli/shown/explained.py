"""Errors as a user sees them: one line each, with the id of the page that says more, and the exit code.

On stderr, as text or, with `--json`, as one object a line. Results never stand there.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterable, Sequence

from framework.authors import is_pythons
from framework.cli import output
from framework.cli.exit_codes import ExitCode
from framework.errors import (
    BrokerUnreachable,
    ConfigurationError,
    ConfigurationMistakes,
    FrameworkError,
    StoreError,
)
from framework.harmless import escaped
from framework.mistakes import ListenerTaken, ModuleMissing, UsageWrong

USAGE = "FA-U001"
NOT_ASKED = "FA-U003"
SETTING_UNSAFE = "FA-U107"
PORT_TAKEN = "FA-B002"
NO_FILES_LEFT = "FA-B003"
UNEXPECTED = "FA-X001"
PLUGIN_FAILED = "FA-P005"
_TAKEN = frozenset({errno.EADDRINUSE, errno.EACCES})
_ADDRESS = re.compile(r"\('([^']+)', (\d+)")
"""As asyncio names what could not be bound."""
_END = "\n"
_FILES = frozenset({errno.EMFILE, errno.ENFILE})


class CommandRefused(FrameworkError):
    """A command that is not carried out, which is told like a word that was typed wrong."""

    id = NOT_ASKED
    code = ExitCode.USAGE


class MessageNotFound(CommandRefused):
    """The cluster has no such message: a script learns it by the code, and a person by the page."""

    id = "FA-C013"
    code = ExitCode.FAILED


def say(error: Exception, *, as_json: bool = False) -> ExitCode:
    """Write the error, or each of several; what to end with."""
    sys.stderr.write(text_of(error, as_json=as_json))
    return exit_code(error)


def text_of(error: Exception, *, as_json: bool = False) -> str:
    """The lines that `say` writes."""
    mistakes: Sequence[Exception] = error.mistakes if isinstance(error, ConfigurationMistakes) else [error]
    if as_json:
        return "".join(f"{as_json_line(mistake)}\n" for mistake in mistakes)
    return "".join(f"error: {with_id(mistake)}\n" for mistake in mistakes) + hint(mistakes)


def behind(error: Exception) -> Exception:
    """The error, or the mistake that led to it: a file of the user that Python takes for a module of its own."""
    if isinstance(error, ImportError | AttributeError):
        for name in sorted(sys.stdlib_module_names & sys.modules.keys()):
            file = str(getattr(sys.modules[name], "__file__", None) or "")
            if file and not is_pythons(file) and "site-packages" not in file:
                return ModuleMissing(
                    f"Python has a module {name!r} already, and this file hides it; rename it", place=file
                )
    return error


def usage(text: str, *, as_json: bool, id_: str = USAGE) -> str:
    """The lines about what was typed wrong, cannot be asked here, or is not there."""
    told = {"error": text, "id": id_, "place": None}
    return f"{output.as_json(told)}\n" if as_json else f"{escaped(text, keep=_END)} [{id_}]\n"


def with_id(error: Exception) -> str:
    """One line of text, and its id."""
    return f"{escaped(_text(error))} [{id_of(error)}]"


def hint(mistakes: Iterable[Exception]) -> str:
    """The command that says more of all of them; empty where nothing went wrong."""
    ids = list(dict.fromkeys(id_of(mistake) for mistake in mistakes))
    return f"hint: framework-app explain {' '.join(ids)}\n" if ids else ""


def id_of(error: Exception) -> str:
    """Which page explains it."""
    if isinstance(error, FrameworkError):
        return error.id
    if isinstance(error, OSError) and error.errno in _FILES:
        return NO_FILES_LEFT
    if isinstance(error, OSError) and error.errno in _TAKEN:
        return PORT_TAKEN
    return str(getattr(error, "id", UNEXPECTED))


def exit_code(error: Exception) -> ExitCode:
    """By whose turn it is."""
    if isinstance(error, UsageWrong):
        return ExitCode.USAGE
    if isinstance(error, ListenerTaken | StoreError) or (isinstance(error, OSError) and error.errno in _TAKEN | _FILES):
        return ExitCode.TAKEN
    if isinstance(error, ConfigurationError):
        return ExitCode.CONFIGURATION
    if isinstance(error, BrokerUnreachable):
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _FILES:
        return f"{error}; raise the limit (ulimit -n)"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE and (place := _ADDRESS.search(str(error))):
        return f"{place[1]}:{place[2]}: another process listens there; end it, or choose another port"
    if isinstance(error, FrameworkError | OSError) or hasattr(error, "id"):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error}; --debug shows where" if str(error) else type(error).__name__


def as_json_line(error: Exception) -> str:
    """The same as an object."""
    return output.as_json({"error": _text(error), "id": id_of(error), "place": getattr(error, "place", None)})
