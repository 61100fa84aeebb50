"""Where `once` remembers what was handled."""
