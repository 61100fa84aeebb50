"""A key that a plugin's model does not know is refused with its place, unless the model allows it by its own word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel, model_validator
from typing_extensions import TypedDict

from framework.errors import ConfigurationError
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.hooks.validated import choose
from framework.model.allocation import Allocation
from framework.settings.schema import AppSettings


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int = 1


class Ignoring(BaseModel):
    model_config = ConfigDict(extra="ignore")
    known: int = 1


class Renamed(BaseModel):
    """One that takes an old name by a validator of its own."""

    depth: int = 1

    @model_validator(mode="before")
    @classmethod
    def _old(cls, values: object) -> object:
        if isinstance(values, dict) and "deep" in values:
            return {("depth" if key == "deep" else key): value for key, value in values.items()}
        return values


@dataclass
class Point:
    left: int = 0


class Named(TypedDict, total=False):
    given: str


class Depth(BaseModel):
    depth: int = 1
    wide: int = Field(1, alias="width")
    old: int = Field(1, validation_alias=AliasChoices("older", "oldest"))
    one: Ignoring = Ignoring()
    some: list[Ignoring] = []
    many: dict[str, Ignoring] = {}
    either: Renamed | Ignoring | int | None = None
    open: Open = Open()
    renamed: Renamed = Renamed()
    point: Point = Point()
    named: Named = {}
    whole: RootModel[dict[str, int]] = RootModel({})


def mistakes(values: Mapping[str, Any], model: type[BaseModel] = Depth) -> list[str]:
    class Deep:
        def __init__(self, settings: BaseModel) -> None: ...

        @staticmethod
        @hookimpl
        def register_settings() -> type[BaseModel]:
            return model

    path = ("plugins", "settings", "deep")
    places: dict[tuple[str, ...], str] = {(*path, key): f"f.yaml:{at}:5" for at, key in enumerate(values, 1)}
    settings = AppSettings.parsed({"plugins": {"settings": {"deep": dict(values)}}}, places)
    assert isinstance(settings, AppSettings)
    host = PluginHost(settings.plugins, settings, objects={"deep": Deep}, discover=list, tolerant=True)
    fine = AppSettings()
    running = PluginHost(fine.plugins, fine, objects={"deep": Deep}, discover=list)
    found = [str(each) for each in host.mistakes]
    of_an_edit = [str(each) for each in running.mistakes_in(settings.plugins, settings)]
    assert found == of_an_edit
    return found


def test_an_unknown_key_is_refused_with_its_place_and_the_nearest_name() -> None:
    """It used to be passed over, and its author to wonder."""
    assert ["f.yaml:2:5: unknown key 'dephts' in plugins.settings.deep; did you mean 'depth'?"] == mistakes(
        {"depth": 2, "dephts": 3}
    )


@pytest.mark.parametrize(
    ("values", "where", "near"),
    [
        ({"one": {"knwon": 1}}, "'knwon' in plugins.settings.deep.one;", "'known'"),
        ({"some": [{"known": 1}, {"knwon": 1}]}, "'knwon' in plugins.settings.deep.some.1;", "'known'"),
        ({"many": {"first": {"knwon": 1}}}, "'knwon' in plugins.settings.deep.many.first;", "'known'"),
        ({"either": {"depht": 1}}, "'depht' in plugins.settings.deep.either;", "'depth'"),
        ({"renamed": {"depp": 1}}, "'depp' in plugins.settings.deep.renamed;", "'depth'"),
        ({"wide": 1}, "'wide' in plugins.settings.deep;", "'width'"),
        ({"old": 1}, "'old' in plugins.settings.deep;", "'older'"),
        ({"point": {"right": 1}}, "'right' in plugins.settings.deep.point", ""),
        ({"named": {"gven": "x"}}, "'gven' in plugins.settings.deep.named", ""),
    ],
)
def test_so_is_one_of_a_model_within_it(values: Mapping[str, Any], where: str, near: str) -> None:
    (mistake,) = mistakes(values)

    assert mistake.startswith(f"f.yaml:1:5: unknown key {where}")
    assert near in mistake


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"depth": 1, "width": 2, "older": 3},
        {"oldest": 3},
        {"open": {"anything": 1, "known": 2}},
        {"renamed": {"deep": 3}},
        {"either": {"deep": 3}},
        {"either": 3},
        {"point": {"left": 1}, "named": {"given": "x"}, "whole": {"any": 1}},
        {"some": [{}, {"known": 1}], "many": {"any": {}}},
    ],
)
def test_what_the_model_knows_or_allows_by_its_own_word_is_taken(values: Mapping[str, Any]) -> None:
    assert [] == mistakes(values)


def test_a_model_that_allows_anything_is_given_it() -> None:
    assert [] == mistakes({"anything": 1}, Open)


def test_what_else_is_wrong_is_said_with_it_and_nothing_twice() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(extra="forbid")
        depth: int = 1

    first, second = mistakes({"depth": "deep", "dpeth": 1})
    assert "plugins.settings.deep.depth: expected a whole number" in first
    assert "unknown key 'dpeth'" in second
    (only,) = mistakes({"dpeth": 1}, Strict)
    assert "unknown key 'dpeth'" in only


def test_so_are_the_options_of_a_strategy() -> None:
    class Striped:
        name, options = "striped", Ignoring

        def configured(self, *_: object) -> Striped:
            return self

        def allocate(self, *_: object) -> list[Any]:
            return []

    with pytest.raises(ConfigurationError, match=r"unknown key 'knwon' in allocation\.striped; did you mean 'known'"):
        choose(Allocation("striped", {"knwon": 1}), {"striped": Striped()}, ("allocation",), AppSettings())
