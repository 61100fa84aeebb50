"""Log lines: structlog and the standard library's logging, set up once per process.

Open to other rooms: `setup`, `streams`.
"""
