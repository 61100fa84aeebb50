"""One frame's content, apart from any connection."""

from __future__ import annotations

from framework.wire import frame
from framework.wire.command import RemotingCommand


def decode_frame(data: bytes | memoryview, *, header_bytes_max: int = frame.HEADER_BYTES_MAX) -> RemotingCommand:
    """The command of one frame without its first four bytes. Raises ProtocolError."""
    size = len(data)
    frame.check_length(size, frame.FRAME_BYTES_MAX, b"")
    word = int.from_bytes(data[:4])
    header_size = frame.check_header(word, size, header_bytes_max)
    return frame.open_header(word >> 24, bytes(data[4 : 4 + header_size]), bytes(data[4 + header_size :]))
