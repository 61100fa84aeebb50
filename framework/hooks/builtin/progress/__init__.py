"""Where what has ended above a gap is kept."""
