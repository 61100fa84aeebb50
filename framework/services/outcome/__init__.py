"""What becomes of a message whose handler did not simply succeed.

Open to other rooms: `again`, `outcomes`, `retry_sender`, `trials`.
"""
