"""Settings, handlers and plugins become plans. Nothing here is awaited or started."""
