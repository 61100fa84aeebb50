"""AUTH_UPDATE_ACL (3007): refused with 29: who may change a user's rules is whoever may write the `--auth` file.

Differences: RocketMQ keeps users and rules itself. Here the remark names the file; without one the answer is 1.
"""

from framework.broker.accounts import refuse_change as handle

__all__ = ["handle"]
