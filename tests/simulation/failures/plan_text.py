"""A plan as text, and back: one JSON object that says everything that was drawn before a run.

So a failure can be replayed whatever a later version draws from its seed. Fields that have their usual value are left
out. Knows plans; runs nothing.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from framework.errors import ConfigurationError, nearest, shorten
from tests.simulation.faults.kinds import NAMES, FaultKind, kind_named
from tests.simulation.faults.nemesis import Strike
from tests.simulation.plans.plan import Plan

SHOWN_MAX = 200
ONE_RUN = "python -m tests.simulation.one"
"""The command that plays one seed or plan, in a clone."""


def written(plan: Plan) -> str:
    """The plan on one line, which a shell may have between single quotes as it is."""
    return json.dumps(as_object(plan), separators=(",", ":")).replace("'", "\\u0027")


def as_object(plan: Plan) -> dict[str, Any]:
    """The plan as JSON has it."""
    told = _said(replace(plan, given=""))  # all of it is given here
    assert isinstance(told, dict)
    return told


def replay_line(plan: Plan) -> str:
    """The command that repeats the run, for a shell."""
    return f"{ONE_RUN} --plan {shlex.quote(written(plan))}"


def read(text: str) -> Plan:
    """The plan that is written there; what it cannot be is the user's error."""
    try:
        told = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"--plan: {shorten(text, SHOWN_MAX)} is not JSON: {error}") from None
    if not isinstance(told, dict):
        raise ConfigurationError(f"--plan: {shorten(text, SHOWN_MAX)} is no JSON object")
    known = {**told, "kinds": [_kind(name) for name in _list(told, "kinds")]}
    if told.get("strikes") is not None:
        known["strikes"] = [_strike(each) for each in _list(told, "strikes")]
    try:
        plan = _reader().validate_python(known, extra="forbid")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"--plan: {where}: {first['msg']}") from None
    names = {kind.name for kind in plan.kinds}
    for strike in plan.strikes or ():
        if strike.kind not in names:
            raise ConfigurationError(f"--plan: strikes: {strike.kind} is none of the kinds {', '.join(sorted(names))}")
    return plan


def usual(each: Field[Any]) -> object:
    """A field's value where nothing else is said."""
    return each.default if each.default_factory is MISSING else each.default_factory()


@cache
def _reader() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


def _said(value: object) -> object:
    if isinstance(value, FaultKind):
        return value.name
    if isinstance(value, Strike):
        return [value.number, value.at, value.kind]
    if is_dataclass(value) and not isinstance(value, type):
        said = {each.name: getattr(value, each.name) for each in fields(value)}
        return {each.name: _said(said[each.name]) for each in fields(value) if said[each.name] != usual(each)}
    if isinstance(value, tuple | list):
        return [_said(each) for each in value]
    return value


def _list(told: dict[str, Any], name: str) -> list[Any]:
    found = told.get(name)
    if not isinstance(found, list):
        raise ConfigurationError(f"--plan: {name}: {shorten(found)} is no list")
    return found


def _kind(name: object) -> FaultKind:
    if name not in NAMES:
        raise ConfigurationError(f"--plan: kinds: there is no {name!r}{nearest(str(name), NAMES)}")
    return kind_named(str(name))


def _strike(told: object) -> Strike:
    match told:
        case [int(number), int(at) | float(at), str(name)]:
            return Strike(number, float(at), _kind(name).name)
    raise ConfigurationError(f"--plan: strikes: {shorten(told)} is not [number, seconds, kind]")
