"""What becomes of messages whose handlers run for too long."""
