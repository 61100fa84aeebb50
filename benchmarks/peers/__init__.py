"""Other clients that consume a backlog, each from its own kind of broker, beside ours: `python -m benchmarks.peers`."""
