"""What becomes of a message whose handler did not simply succeed."""
