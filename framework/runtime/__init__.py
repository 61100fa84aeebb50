"""Putting it together: settings, handlers and plugins become groups that run. Wiring and orders, no decisions."""
