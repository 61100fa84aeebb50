"""Who runs the handlers of concurrent groups: tasks, threads, batches, and the clock that watches them.

Open to other rooms: `batches`, `expiry`, `on_thread`, `run`, `tasks`, `threads`.
"""
