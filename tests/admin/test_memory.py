"""What a look leaves behind for the next one, and what becomes of a file that is not as it was left."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from framework.admin import memory
from framework.admin.memory import Memory, PendingReset, place_of
from framework.model.queue import MessageQueue

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 3)


def seen(path: Path) -> Memory:
    found = Memory(path)
    found.saw(["broker-a", "broker-b"], 1_000)
    found.saw_group("billing", [A, B])
    found.save()
    return found


def test_the_next_look_misses_what_the_last_one_saw(tmp_path: Path) -> None:
    path = tmp_path / "state" / "looks.json"
    assert "" == seen(path).trouble
    later = Memory(path)

    assert {"broker-b": 1_000} == later.absent({"broker-a", "broker-c"})
    assert {A, B} == later.queues("billing")
    assert (True, False) == (later.may_have_used("billing", "broker-b"), later.may_have_used("billing", "broker-c"))
    assert later.may_have_used("shipping", "broker-b"), "nobody ever looked at it"
    assert {"billing"} == later.groups_at({"broker-b"})
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    assert [path] == list(path.parent.iterdir()), "no draft is left"


def test_a_reset_is_kept_until_it_was_taken_or_is_old(tmp_path: Path) -> None:
    found = seen(tmp_path / "looks.json")
    found.has_reset("billing", A, PendingReset(9, 0, 1_000))
    found.has_reset("billing", B, PendingReset(0, 9, 1_000))
    found.save()

    later = Memory(tmp_path / "looks.json")
    assert {A: PendingReset(9, 0, 1_000), B: PendingReset(0, 9, 1_000)} == later.resets("billing", 2_000)
    later.reset_taken("billing", A)
    assert {B} == set(later.resets("billing", 2_000))
    assert {} == later.resets("billing", 1_000 + memory.RESET_MS)
    later.save()
    assert {} == Memory(tmp_path / "looks.json").resets("billing", 2_000)


def test_a_reset_is_taken_when_the_owner_is_on_its_side() -> None:
    back, forth = PendingReset(9, 0, 0), PendingReset(2, 9, 0)
    assert [False, False, True, True] == [back.is_taken(0, owners) for owners in (12, 9, 8, 0)]
    assert [False, False, True, True] == [forth.is_taken(9, owners) for owners in (2, 5, 9, 12)]
    assert back.is_taken(4, 9), "somebody has stored another offset since"


def test_what_was_taken_away_for_good_is_not_missed(tmp_path: Path) -> None:
    found = seen(tmp_path / "looks.json")
    assert found.forget("broker-b")
    assert not found.forget("broker-b")
    found.save()

    later = Memory(tmp_path / "looks.json")
    assert {} == later.absent({"broker-a"})
    assert {A} == later.queues("billing")


def garble(path: Path) -> None:
    path.write_text('{"brokers": {"broker-a": ')


def other_shape(path: Path) -> None:
    path.write_text('{"brokers": {"broker-a": 1}, "groups": {"billing": 7}}')


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [garble, other_shape, folder, fifo])
def test_a_file_that_cannot_be_read_is_said_and_stops_nobody(damage: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "looks.json"
    seen(path)
    damage(path)
    found = Memory(path)

    assert found.trouble.startswith(f"{path}: ")
    assert ({}, frozenset()) == (found.absent([]), found.queues("billing"))


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    found = Memory(tmp_path / "state" / "looks.json")
    found.save()

    assert "cannot be written" in found.trouble


def test_a_huge_cluster_does_not_grow_it_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "QUEUES_MAX", 3)
    found = Memory()
    found.saw_group("one", [A, B])
    found.saw_group("two", [A, B])
    found.saw_group("three", [A])

    assert [True, False, True] == [found.knows(group) for group in ("one", "two", "three")]


def test_each_cluster_has_a_file_in_the_users_own_folder(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    one, two = (place_of(servers, environment) for servers in (("a:1", "b:1"), ("a:1", "c:1")))

    assert one == place_of(("b:1", "a:1"), environment)
    assert one != two
    assert tmp_path / "framework-app" / "clusters" == one.parent
    assert Path.home() / ".local" / "state" in place_of(("a:1",), {"XDG_STATE_HOME": "relative"}).parents
