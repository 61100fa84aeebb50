"""AUTH_CREATE_USER (3001): refused with 29: users are made in the `--auth` file.

Differences: RocketMQ keeps users and rules itself. Here the remark names the file; without one the answer is 1.
"""

from framework.broker.accounts import refuse_change as handle

__all__ = ["handle"]
