"""One command a file: `add_options(parser)` and `execute(arguments) -> ExitCode`. Light to import; work is lazy."""
