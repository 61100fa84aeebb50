"""What happens to messages whose handlers exceed their timeout."""
