"""The asyncio shell around the pure wire: sockets, tasks, and the real world behind the ports."""
