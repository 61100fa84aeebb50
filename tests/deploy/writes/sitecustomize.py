"""Notes each file that this process opens to write, or makes: a container with a read-only root would refuse it."""

import os
import sys

_PLACE = os.environ.get("NOTE_WRITES_IN", "")
_OTHERS = {"os.mkdir": 0, "os.rename": 1, "os.symlink": 1, "os.link": 1}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def _note(event: str, arguments: tuple[object, ...]) -> None:
    path: object = None
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
        path = arguments[0]
    elif event in _OTHERS:
        path = arguments[_OTHERS[event]]
    elif event == "socket.bind" and isinstance(arguments[1], str | bytes):
        path = arguments[1]
    if isinstance(path, str | bytes) and path and (place := os.fsdecode(path)) != _PLACE:
        with open(_PLACE, "a", encoding="utf-8") as file:
            file.write(f"{os.path.abspath(place)}\n")


if _PLACE:
    sys.addaudithook(_note)
