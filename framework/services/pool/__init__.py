"""Who runs the handlers of concurrent groups: tasks, threads, batches, and the clock that watches them.

Open to other rooms: `batches`, `expiry`, `run`, `tasks`, `threads`.
"""
