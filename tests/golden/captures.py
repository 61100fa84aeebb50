"""The captures as they lie on disk: a file of frames, one after the other, and an index that says what each is.

`SET.bin` holds the frames with their length bytes; `SET.json` where each begins, who sent it, and what the producer was
told to send and answered, so that a test knows what must come out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.golden.recorder import Frame

BROKER_RUNTIME_INFO = 28
"""Left out: it tells the folders of the machine that made the capture."""

FOLDER = Path(__file__).parent / "captures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is known of one frame without decoding it."""

    at: int
    size: int
    sender: str
    kind: str
    """`request`, `answer` or `one-way`."""
    request: int
    """The request's code; of an answer, the code of the request that it answers."""
    code: int
    binary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSet:
    """The frames of one conversation."""

    name: str
    entries: Sequence[Entry]
    content: bytes
    sent: Sequence[dict[str, Any]]
    """Every message that was sent: topic, body (base64), tags, keys, properties, and what the producer was told."""

    def raw(self, entry: Entry) -> bytes:
        """The frame with its four length bytes."""
        return self.content[entry.at : entry.at + entry.size]

    def find(self, request: int, kind: str, *, sender: str | None = None, code: int | None = None) -> list[bytes]:
        """Every frame of this kind; for answers, `request` is what they answer."""
        return [
            self.raw(entry)
            for entry in self.entries
            if (entry.request, entry.kind) == (request, kind)
            and (sender is None or sender == entry.sender)
            and (code is None or code == entry.code)
        ]


def load(name: str) -> CaptureSet:
    index = json.loads((FOLDER / f"{name}.json").read_text())
    entries = [Entry(**entry) for entry in index["frames"]]
    return CaptureSet(name=name, entries=entries, content=(FOLDER / f"{name}.bin").read_bytes(), sent=index["sent"])


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.bin"))


def save(name: str, frames: Sequence[Frame], sent: Sequence[dict[str, Any]], *, made_by: str) -> None:
    """Choose from a conversation what stands for all of it, and write that."""
    entries = []
    content = b""
    for frame, request in _chosen(frames):
        entry = Entry(
            at=len(content),
            size=len(frame.raw),
            sender=frame.sender,
            kind=frame.kind,
            request=request,
            code=frame.code,
            binary=frame.binary,
        )
        entries.append(asdict(entry))
        content += frame.raw
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.bin").write_bytes(content)
    lines = ",\n".join("    " + json.dumps(entry) for entry in entries)
    told = ",\n".join("    " + json.dumps(message) for message in sent)
    text = f'{{\n  "made_by": {json.dumps(made_by)},\n  "frames": [\n{lines}\n  ],\n  "sent": [\n{told}\n  ]\n}}\n'
    (FOLDER / f"{name}.json").write_text(text)


def _chosen(frames: Sequence[Frame]) -> list[tuple[Frame, int]]:
    """Two of each sort, but every pull that brought messages: those differ in what counts."""
    requests: dict[tuple[int, str, int], int] = {}
    seen: dict[tuple[object, ...], int] = {}
    bodies: set[bytes] = set()
    chosen = []
    for frame in frames:
        if frame.kind == "answer":
            # Each side counts its own requests, so an answer belongs to a request from the other side.
            side = "client" if frame.sender != "client" else "server"
            request = requests.get((frame.connection, side, frame.number))
            if request is None:
                continue
        else:
            request = frame.code
            side = "client" if frame.sender == "client" else "server"
            requests[frame.connection, side, frame.number] = request
        sort = (frame.sender, frame.kind, request, frame.code, frame.binary)
        body = frame.raw[8 + int.from_bytes(frame.raw[5:8]) :]
        brings_messages = frame.kind == "answer" and request == 11 and frame.code == 0 and body not in bodies
        if request == BROKER_RUNTIME_INFO:
            continue
        if brings_messages or seen.get(sort, 0) < 2:
            bodies.add(body)
            seen[sort] = seen.get(sort, 0) + 1
            chosen.append((frame, request))
    return chosen
