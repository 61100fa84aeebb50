"""How bodies are read by handlers that name a codec."""
