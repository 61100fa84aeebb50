"""What an application looks like from outside: snapshots, running info, stacks.

Open to other rooms: `observe`, `reasons`, `running_info`, `stacks`, `stalls`.
"""
