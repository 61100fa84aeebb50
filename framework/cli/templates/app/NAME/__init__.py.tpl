"""What $name does with its messages: `handlers.py`."""
