"""What operators ask of a cluster: blocking, for commands and scripts. It joins no group and runs no handler.

`Admin` reaches name servers and brokers; every other file asks one kind of question, and says what nobody answered.
"""
