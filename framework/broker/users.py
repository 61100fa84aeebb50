"""Users: who may ask, by signature, and what, by rules. As RocketMQ's access control 2.0, with its texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import Any, NoReturn

from framework.broker.rules import ACTIONS, ANY, KINDS, Network, Rule, User, refusal
from framework.broker.wants import wants_of
from framework.errors import ProtocolError, bare, nearest, shorten
from framework.mistakes import UsersWrong
from framework.wire.command import RemotingCommand
from framework.wire.signing import ACCESS_KEY, verify

_USER_KEYS = ("password", "type", "rules")
_RULE_KEYS = ("resources", "actions", "decision", "sources")
_EXAMPLES = "such as 'Topic:orders', 'Topic:orders-*', 'Group:*', 'Cluster:*' or '*'"

Places = Mapping[tuple[str, ...], str]


class Users:
    """All users of a broker."""

    def __init__(self, users: Iterable[User], cluster: str, place: str = "the --auth file") -> None:
        self._users = {user.name: user for user in users}
        self._cluster = cluster
        self.place = place
        """Where they stand, for people who want to change them."""

    def all(self) -> list[User]:
        return list(self._users.values())

    def refusal(self, command: RemotingCommand, peer: str) -> str | None:
        """Why the request is not served; None where it is."""
        name = command.fields.get(ACCESS_KEY)
        if not name:
            return "username cannot be null."
        user = self._users.get(name)
        if user is None:
            return f"User:{bare(name)} is not found."
        if not verify(command, user.password):
            return "check signature failed."
        if user.is_super:
            return None
        try:
            wants = wants_of(command, self._cluster)
        except ProtocolError:
            return "parse authorization context error."
        return refusal(user, wants, peer.rpartition(":")[0].strip("[]"))


def users_in(values: Mapping[str, Any], places: Places, file: str) -> tuple[User, ...]:
    """The users of an `--auth` file. Raises ConfigurationError with the place of what is wrong."""
    return _Reader(places, file).users(values)


class _Reader:
    def __init__(self, places: Places, file: str) -> None:
        self._places, self._file = places, file

    def users(self, values: Mapping[str, Any]) -> tuple[User, ...]:
        if set(values) - {"users"}:
            self._refuse((), f"users stand alone in their file; take {', '.join(sorted(set(values) - {'users'}))} out")
        users = self._mapping(values["users"], ("users",), None)
        if not users:
            self._refuse(("users",), "no users, so nobody could do anything")
        return tuple(self._user(name, values, ("users", name)) for name, values in users.items())

    def _user(self, name: str, values: Any, path: tuple[str, ...]) -> User:
        known = self._mapping(values, path, _USER_KEYS)
        password = known.get("password")
        if not password or not isinstance(password, str):
            self._refuse(path, f"user {shorten(name)} needs a password")
        kind = self._one_of(known.get("type", "Normal"), ("Super", "Normal"), (*path, "type"))
        rules = known.get("rules") or []
        if not isinstance(rules, list):
            self._refuse((*path, "rules"), "expected a list of rules")
        if kind == "Super" and rules:
            self._refuse((*path, "rules"), f"user {shorten(name)} is a super user, whom no rule binds: type: normal")
        found = [rule for i, each in enumerate(rules) for rule in self._rule(each, (*path, "rules", str(i)))]
        return User(name, password, kind == "Super", tuple(found))

    def _rule(self, values: Any, path: tuple[str, ...]) -> list[Rule]:
        known = self._mapping(values, path, _RULE_KEYS)
        for needed in ("resources", "actions"):
            if not known.get(needed):
                self._refuse(path, f"a rule needs {needed}")
        actions: set[str] = set()
        for each in self._texts(known["actions"], (*path, "actions")):
            named = self._one_of(each, ("All", *ACTIONS), (*path, "actions"))
            actions.update(ACTIONS if named == "All" else (named,))
        is_allowed = self._one_of(known.get("decision", "Allow"), ("Allow", "Deny"), (*path, "decision")) == "Allow"
        sources = tuple(
            self._network(each, (*path, "sources")) for each in self._texts(known.get("sources"), (*path, "sources"))
        )
        return [
            Rule(*self._resource(each, (*path, "resources")), frozenset(actions), is_allowed, sources)
            for each in self._texts(known["resources"], (*path, "resources"))
        ]

    def _resource(self, text: str, path: tuple[str, ...]) -> tuple[str, str]:
        if text == ANY:
            return ANY, ANY
        kind, _, name = text.partition(":")
        if not name or "*" in name[:-1]:
            self._refuse(path, f"{shorten(text)}: {_EXAMPLES}")
        return self._one_of(kind, KINDS, path), name

    def _network(self, text: str, path: tuple[str, ...]) -> Network:
        try:
            return ip_network(text, strict=False)
        except ValueError:
            self._refuse(path, f"{shorten(text)} is no address, such as 10.1.2.3, 10.0.0.0/8 or 2001:db8::/32")

    def _one_of(self, text: Any, known: tuple[str, ...], path: tuple[str, ...]) -> str:
        named = [each for each in known if isinstance(text, str) and text.lower() == each.lower()]
        if named:
            return named[0]
        return self._refuse(path, f"{shorten(str(text))}: one of {', '.join(known)}{nearest(str(text), known)}")

    def _texts(self, values: Any, path: tuple[str, ...]) -> list[str]:
        """A list, or a text with commas, as mqadmin takes it."""
        if values is None:
            return []
        if isinstance(values, str):
            values = [part.strip() for part in values.split(",")]
        if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
            self._refuse(path, "expected a list of texts")
        return values

    def _mapping(self, values: Any, path: tuple[str, ...], known: tuple[str, ...] | None) -> dict[str, Any]:
        if not isinstance(values, dict):
            self._refuse(path, f"expected keys and values{'' if known is None else ': ' + ', '.join(known)}")
        for key in values:
            if known is not None and key not in known:
                self._refuse((*path, key), f"unknown key {shorten(key)}; known here: {', '.join(known)}")
        return values

    def _refuse(self, path: tuple[str, ...], reason: str) -> NoReturn:
        while path and path not in self._places:
            path = path[:-1]
        raise UsersWrong(reason, place=self._places.get(path, self._file))
