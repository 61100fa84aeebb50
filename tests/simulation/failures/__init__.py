"""What is done with a seed that fails: kept as a plan that replays, made small, compared with a run that holds."""
