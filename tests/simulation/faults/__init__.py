"""What goes wrong in a simulated cluster, and the nemesis that causes it."""
