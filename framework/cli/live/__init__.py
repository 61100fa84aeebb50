"""A running application and the commands that ask it: sockets of `run` and `dev`, finding one, the table of `top`."""
