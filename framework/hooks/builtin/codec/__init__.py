"""How bodies are read that name a codec."""
