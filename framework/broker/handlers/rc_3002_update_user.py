"""AUTH_UPDATE_USER (3002): refused with 29: who may change a user is whoever may write the `--auth` file.

Differences: RocketMQ keeps users and rules itself. Here the remark names the file; without one the answer is 1.
"""

from framework.broker.accounts import refuse_change as handle

__all__ = ["handle"]
