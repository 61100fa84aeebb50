"""What becomes of a message whose handler did not simply succeed.

Open to other rooms: `outcomes`, `retry_in_place`, `settle`, `trials`, `unopened`.
"""
