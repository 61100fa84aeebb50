"""Ways of consuming that need more than a draw of settings. Each module has one: what it draws, and what it does."""
