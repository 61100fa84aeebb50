"""Users and rules as administrators see them: those of the `--auth` file, without passwords. None is changed here."""

from __future__ import annotations

from framework.broker.answers import Answer, Refusal, ok, refuse
from framework.broker.node import Node
from framework.broker.request import Request
from framework.broker.rules import ACTIONS, ANY, Rule, User
from framework.wire.bodies.auth import AclInfo, Policy, PolicyEntry, UserInfo, encode_all
from framework.wire.codes import ResponseCode
from framework.wire.requests.auth import AclListRequest, AclRequest, UserListRequest, UserRequest


def refuse_change(request: Request) -> Answer:
    """A change of users or rules: refused with 29, for they are changed in the `--auth` file.

    Differences: RocketMQ keeps users and rules itself. Here the remark names the file; without one the answer is 1.
    """
    if request.node.users is None:
        return refuse(ResponseCode.SYSTEM_ERROR, _NO_USERS)
    where = request.node.users.place
    return refuse(
        ResponseCode.INVALID_PARAMETER, f"users and rules are those of {where}: edit it, and start the broker again"
    )


def get_user(request: Request) -> Answer:
    """AUTH_GET_USER (3004): one user of the `--auth` file, or an empty answer; 1 where there is no file.

    Differences: passwords are not shown, and every user is enabled.
    """
    header = request.header(UserRequest)
    if not header.username:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The username is blank")
    user = _user_named(request.node, header.username)
    return ok(body=b"" if user is None else _user_info(user).encode())


def list_users(request: Request) -> Answer:
    """AUTH_LIST_USER (3005): the users of the `--auth` file whose names have a part; 1 where there is no file.

    Differences: those of 3004.
    """
    wanted = request.header(UserListRequest).filter or ""
    found = [_user_info(user) for user in _users_of(request.node) if wanted in user.name]
    return ok(body=encode_all(found) if found else b"")


def get_acl(request: Request) -> Answer:
    """AUTH_GET_ACL (3009): a user's rules, `User:name`; 16 for an unknown user, an empty answer for a user without
    rules.

    Differences: each resource is an entry of its own, as RocketMQ too takes a list of them apart.
    """
    kind, _, name = request.header(AclRequest).subject.partition(":")
    user = _user_named(request.node, name)
    if kind != "User" or user is None:
        raise Refusal(ResponseCode.NO_PERMISSION, "The subject is not exist.")
    found = _acl_info(user)
    return ok(body=b"" if found is None else found.encode())


def list_acls(request: Request) -> Answer:
    """AUTH_LIST_ACL (3010): the rules of all users, by parts of their names and of resources; 1 where there is no file.

    Differences: the part of a resource filters also if the name matches; RocketMQ ignores it then.
    """
    header = request.header(AclListRequest)
    subjects = [user for user in _users_of(request.node) if (header.subject_filter or "") in _subject_of(user)]
    found = [acl for user in subjects if (acl := _acl_info(user, header.resource_filter or "")) is not None]
    return ok(body=encode_all(found) if found else b"")


_NO_USERS = "the broker was started without --auth, so it has no users, and everybody may do everything"


def _users_of(node: Node) -> list[User]:
    """All of them, in the order of the file, or a Refusal."""
    if node.users is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, _NO_USERS)
    return node.users.all()


def _user_named(node: Node, name: str) -> User | None:
    return next((user for user in _users_of(node) if user.name == name), None)


def _user_info(user: User) -> UserInfo:
    """Without its password, which nobody needs to see."""
    return UserInfo(username=user.name, user_type="Super" if user.is_super else "Normal")


def _acl_info(user: User, resource_filter: str = "") -> AclInfo | None:
    """A user's rules about resources whose name has this part; None where there is none."""
    entries = tuple(entry for rule in user.rules if resource_filter in (entry := _entry(rule)).resource)
    return AclInfo(subject=_subject_of(user), policies=(Policy(entries=entries),)) if entries else None


def _subject_of(user: User) -> str:
    return f"User:{user.name}"


def _entry(rule: Rule) -> PolicyEntry:
    is_all = rule.actions == frozenset(ACTIONS)
    return PolicyEntry(
        resource=ANY if rule.kind == ANY else f"{rule.kind}:{rule.name}",
        actions=("All",) if is_all else tuple(action for action in ACTIONS if action in rule.actions),
        source_ips=tuple(map(str, rule.sources)),
        decision="Allow" if rule.is_allowed else "Deny",
    )
