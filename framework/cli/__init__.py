"""The command line. What it prints as a result goes to stdout, everything else to stderr."""
