"""Screen: a terminal that is drawn on and gives single keys, and is left as it was found, whatever ends the command.

Signals that would end or stop the command are held back while it is drawn on, looked for four times a second, and then
let do what they do on a terminal that was put right.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import sys
import termios
import tty
from types import TracebackType
from typing import Self

ALTERNATE, MAIN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
LOOK_SECONDS = 0.25
KEY_BYTES_MAX = 16
_KEYS = re.compile(r"\x1b[\[O].|.", re.DOTALL)
"""Keys that were pressed while the application was asked come together: each counts."""
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
HELD_BACK = (*ENDING, signal.SIGTSTP)


def is_there() -> bool:
    """Whether there is a terminal to draw on and to press keys at."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") not in {None, "", "dumb"}


class Screen:
    """Within `with`; Ctrl-C comes as KeyboardInterrupt, as always."""

    def __init__(self) -> None:
        self._pressed: list[str] = []

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(sys.stdin)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)  # one that waited comes through now

    def _take(self) -> None:
        tty.setcbreak(sys.stdin)
        self._write(ALTERNATE)

    def _give_back(self) -> None:
        try:
            self._write(MAIN)
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def draw(self, lines: list[str]) -> None:
        """These lines, cut where the terminal ends; a line may have colours, which have no width."""
        columns, rows = shutil.get_terminal_size()
        shown = [f"{cut(line, columns)}{CLEAR_LINE}" for line in lines[:rows]]
        self._write(HOME + "\r\n".join(shown) + CLEAR_BELOW)

    def key(self, seconds: float) -> str | None:
        """The next key within so long; "" where the command is to end, None where nobody pressed any."""
        if self._pressed:
            return self._pressed.pop(0)
        left = seconds
        while left > 0:
            pending = signal.sigpending()
            if any(each in pending for each in ENDING):
                return ""
            if signal.SIGTSTP in pending:
                self._stop()
                return None
            step = min(left, LOOK_SECONDS)
            if select.select([sys.stdin], [], [], step)[0]:
                text = os.read(sys.stdin.fileno(), KEY_BYTES_MAX).decode(errors="replace")
                self._pressed = _KEYS.findall(text)
                return self._pressed.pop(0) if self._pressed else ""  # "": the terminal is gone
            left -= step
        return None

    def _stop(self) -> None:
        """Ctrl-Z: the shell gets its terminal as it was, and we ours when we go on."""
        self._give_back()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTSTP])
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTSTP])
        self._take()

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def cut(line: str, columns: int) -> str:
    """So much of it as has room, with its colours, which end with it."""
    shown, width, index, is_coloured = "", 0, 0, False
    while index < len(line) and width < columns:
        if line[index] == "\x1b":
            end = line.index("m", index) + 1
            shown += line[index:end]
            is_coloured, index = True, end
            continue
        shown += line[index]
        width, index = width + 1, index + 1
    return f"{shown}\x1b[0m" if is_coloured else shown
