"""What takes two: transactions that brokers ask about, and requests that consumers reply to.

Open to other rooms: `checks`, `introductions`, `lots`, `replies`, `requests`, `transactions`.
"""
