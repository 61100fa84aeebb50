"""Where progress above a gap is kept."""
