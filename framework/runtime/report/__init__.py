"""What an application looks like from outside: snapshots, running info, stacks."""
