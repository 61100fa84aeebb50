"""What looks on while a run goes on: sizes of tables, what a broker has stored, and what a process leaves behind."""
