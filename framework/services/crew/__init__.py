"""Who runs the handlers of concurrent groups: tasks, threads, batches, and the clock that watches them."""
