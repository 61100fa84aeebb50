"""One owned queue, from the first question to the last commit: where it begins, its pull loop, its pace.

Open to other rooms: `intake`, `leaving`, `pacing`, `popped`, `position`, `pull`.
"""
