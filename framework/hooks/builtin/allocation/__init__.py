"""Strategies that divide queues among members, one a file."""
