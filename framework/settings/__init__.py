"""YAML, environment and command line into one typed and frozen AppSettings. Knows no handler, plugin or network."""
