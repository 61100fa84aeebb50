"""Run a module of PySpark's, having connected to the JVM before the import of anything.

Spark waits ten seconds from the start of a stream's source process until it has said the secret, which no setting
changes, and most of them may go by in imports where eight processes share a core. So tests say it first.
`python early_python.py -m MODULE`, with Spark's environment.
"""

from __future__ import annotations

import os
import runpy
import socket
import struct
import sys
from pathlib import Path


def main() -> None:
    connection = socket.create_connection(("127.0.0.1", int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
    secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    connection.sendall(struct.pack(">i", len(secret)) + secret)
    stream = connection.makefile("rwb", 65536)
    (size,) = struct.unpack(">i", stream.read(4))
    answer = stream.read(size)
    if answer != b"ok":
        sys.exit(f"Spark answered {answer!r} to its secret")

    from pyspark import worker_util

    vars(worker_util)["local_connect_and_auth"] = lambda *_: (stream, connection)
    sys.path[0] = str(Path.cwd())  # as `python -m` has it
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
