"""What survives a crash: messages, offsets, topics, groups and what is due later, in one SQLite file, by one writer."""
