"""The control socket of an application: where it lies, who listens, how it is asked. It knows no question.

A Unix socket, mode 0600. One JSON object on a line is the request, one on a line the answer; then the connection ends.
"""
