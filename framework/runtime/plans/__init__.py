"""Settings, handlers and plugins become plans. Nothing here is awaited or started.

Open to other rooms: `collect`, `connect`, `groups`, `stores`.
"""
