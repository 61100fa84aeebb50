"""What a command that consumes shows at its start: the banner, a first message to send, the log lines left out."""
