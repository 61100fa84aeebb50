"""How far a group has come, and where that is kept: on brokers, in files, in stores of progress."""
