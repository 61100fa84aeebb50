"""Which line of an error's way is its author's own: where somebody has to look who wants to mend it.

Not the framework's, nor that of a library which was called with a wrong argument. An application that is installed as a
package lies among the libraries: there its own lines are those of the package that was called first.
"""

from __future__ import annotations

import contextlib
from types import FrameType, TracebackType

_OURS = f"{__file__.rpartition('/')[0]}/"
_PYTHON = f"{contextlib.__file__.rpartition('/')[0]}/"
_PACKAGES = ("/site-packages/", "/dist-packages/")


def line_of(error: BaseException | None) -> tuple[FrameType, int] | None:
    """The innermost of the author's lines, else the innermost that is not the framework's; None where there is none."""
    found, trace = [], None if error is None else error.__traceback__
    while trace is not None:
        if not _file(trace).startswith((_OURS, "<")):  # what has no file is of nobody
            found.append(trace)
        trace = trace.tb_next
    called = [each for each in found if not is_pythons(_file(each))]
    own = [each for each in called if not _is_packages(_file(each))]
    if not own:
        own = [each for each in called if _name(each) == _name(called[0])]
    if not (own or found):
        return None
    innermost = (own or found)[-1]
    return innermost.tb_frame, innermost.tb_lineno


def is_pythons(file: str) -> bool:
    """Whether it is of the standard library. Packages may lie below that."""
    return file.startswith(_PYTHON) and not _is_packages(file)


def _is_packages(file: str) -> bool:
    return any(each in file for each in _PACKAGES)


def _file(trace: TracebackType) -> str:
    return trace.tb_frame.f_code.co_filename


def _name(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
