"""How far a group has come, and where that is kept: on brokers, in files, in stores of progress.

Open to other rooms: `asked_store`, `commit`, `local_offsets`, `progress`, `progress_loop`, `progress_use`.
"""
