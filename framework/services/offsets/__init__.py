"""How far a group has come, and where that is kept: on brokers, in files, in stores of progress.

Open to other rooms: `commit`, `handover`, `local_offsets`, `nothing_kept`, `progress`, `progress_use`.
"""
