"""Users and rules as administrators see them: those of the `--auth` file, without passwords. None is changed here."""

from __future__ import annotations

from framework.broker.node import Node
from framework.broker.request import Answer, Refusal, Request, refuse
from framework.broker.rules import ACTIONS, ANY, Rule, User
from framework.wire.bodies.auth import AclInfo, Policy, PolicyEntry, UserInfo
from framework.wire.codes import ResponseCode

NO_USERS = "the broker was started without --auth, so it has no users, and everybody may do everything"


def users_of(node: Node) -> list[User]:
    """All of them, in the order of the file, or a Refusal."""
    if node.users is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, NO_USERS)
    return node.users.all()


def user_named(node: Node, name: str) -> User | None:
    return next((user for user in users_of(node) if user.name == name), None)


def user_info(user: User) -> UserInfo:
    """Without its password, which nobody needs to see."""
    return UserInfo(username=user.name, user_type="Super" if user.is_super else "Normal")


def acl_info(user: User, resource_filter: str = "") -> AclInfo | None:
    """A user's rules about resources whose name has this part; None where there is none."""
    entries = tuple(entry for rule in user.rules if resource_filter in (entry := _entry(rule)).resource)
    return AclInfo(subject=subject_of(user), policies=(Policy(entries=entries),)) if entries else None


def subject_of(user: User) -> str:
    return f"User:{user.name}"


def refuse_change(request: Request) -> Answer:
    """Users and rules are changed where they stand."""
    if request.node.users is None:
        return refuse(ResponseCode.SYSTEM_ERROR, NO_USERS)
    where = request.node.users.place
    return refuse(
        ResponseCode.INVALID_PARAMETER, f"users and rules are those of {where}: edit it, and start the broker again"
    )


def _entry(rule: Rule) -> PolicyEntry:
    is_all = rule.actions == frozenset(ACTIONS)
    return PolicyEntry(
        resource=ANY if rule.kind == ANY else f"{rule.kind}:{rule.name}",
        actions=("All",) if is_all else tuple(action for action in ACTIONS if action in rule.actions),
        source_ips=tuple(map(str, rule.sources)),
        decision="Allow" if rule.is_allowed else "Deny",
    )
