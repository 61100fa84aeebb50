"""Credentials: who we are to a cluster with access control. The secret shows in no repr, log or error."""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.wire.command import RemotingCommand


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key and its secret (ACL 2.0: user name and password), and a token where the cluster wants one."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, command: RemotingCommand) -> None:
        """Add the signature's fields. Whatever is added to the command afterwards breaks it."""
        from framework.wire.signing import sign  # only where a cluster wants it

        sign(command, self.access_key, self.secret_key, self.security_token)
