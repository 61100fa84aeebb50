"""MemberLists: who counts by what several brokers list, while some of them are young."""

from __future__ import annotations

from framework.core.limits import LIST_KEPT_MS
from framework.core.member_lists import MemberList, MemberLists

MINUTE = 60_000
BOTH = ["a", "b"]


class Heard:
    """MemberLists, and the brokers' connections as a test says them."""

    def __init__(self) -> None:
        self.lists = MemberLists()
        self.now_ms = 10 * MINUTE
        self.connected_at = {"a": 0, "b": 0}

    def after(self, length_ms: int, **lists: str | None) -> list[str]:
        """So much later the brokers list these, one letter a member; None: no answer."""
        self.now_ms += length_ms
        self.lists.take(
            [
                MemberList(name, None if listed is None else tuple(listed), self.now_ms - self.connected_at[name])
                for name, listed in lists.items()
            ],
            self.now_ms,
        )
        return self.lists.members(BOTH, self.now_ms)

    def restarted(self, broker: str) -> None:
        """We are connected to it anew, from a second from now."""
        self.connected_at[broker] = self.now_ms + 1_000


def test_who_is_on_one_list_counts() -> None:
    it = Heard()
    assert ["x", "y", "z"] == it.after(0, a="xy", b="yz")


def test_a_restarted_broker_s_list_takes_nobody_away_whom_another_lists() -> None:
    it = Heard()
    it.after(0, a="xyz", b="xyz")
    it.restarted("a")
    assert ["x", "y", "z"] == it.after(2_000, a="x", b="xyz")
    assert ["x", "y", "z"] == it.after(5 * MINUTE, a="x", b="xyz")


def test_the_only_broker_s_members_are_kept_for_a_while_after_its_restart() -> None:
    it = Heard()
    it.after(0, a="xyz")
    it.restarted("a")
    assert ["x", "y", "z"] == it.after(2_000, a="x")
    assert it.now_ms - 1_000 + LIST_KEPT_MS == it.lists.next_ms(it.now_ms)
    assert ["x", "y", "z"] == it.after(5_000, a="xy")
    assert ["x", "y"] == it.after(LIST_KEPT_MS, a="xy")
    assert it.lists.next_ms(it.now_ms) is None


def test_the_bound_is_counted_from_the_new_connection_however_long_the_broker_was_away() -> None:
    it = Heard()
    it.after(0, a="xy")
    it.now_ms += 60 * MINUTE
    it.restarted("a")
    assert ["x", "y"] == it.after(LIST_KEPT_MS, a="x")
    assert ["x"] == it.after(1_000, a="x")


def test_who_leaves_by_a_connection_that_is_no_news_is_gone_at_once() -> None:
    it = Heard()
    it.after(0, a="xyz", b="xyz")
    assert ["x", "y"] == it.after(1_000, a="xy", b="xy")


def test_who_came_back_to_a_restarted_broker_and_leaves_it_is_gone_at_once() -> None:
    it = Heard()
    it.after(0, a="xyz")
    it.restarted("a")
    it.after(2_000, a="xy")
    assert ["x", "z"] == it.after(1_000, a="x"), "y was back; z is not yet"


def test_who_leaves_while_a_broker_is_young_is_gone_by_the_word_of_another() -> None:
    it = Heard()
    it.after(0, a="xyz", b="xyz")
    it.restarted("a")
    it.after(2_000, a="x", b="xyz")
    assert ["x", "y"] == it.after(1_000, a="x", b="xy")
    assert ["x", "y"] == it.after(1_000, a="x", b="xy")


def test_who_leaves_while_a_broker_says_nothing_is_gone_by_the_word_of_another() -> None:
    it = Heard()
    it.after(0, a="xyz", b="xyz")
    assert ["x", "y", "z"] == it.after(1_000, a=None, b="xyz")
    assert ["x", "y"] == it.after(1_000, a=None, b="xy")
    it.restarted("a")
    assert ["x", "y"] == it.after(2_000, a="x", b="xy"), "and does not come back with the broker"


def test_whom_a_silent_broker_alone_had_listed_is_kept_for_a_while() -> None:
    it = Heard()
    it.after(0, a="xz", b="xy")
    assert ["x", "y", "z"] == it.after(1_000, a=None, b="xy")
    assert ["x", "y", "z"] == it.after(LIST_KEPT_MS - 1_000, a=None, b="xy")
    assert ["x", "y"] == it.after(1_000, a=None, b="xy")
    it.restarted("a")
    assert ["x", "y"] == it.after(2_000, a="x", b="xy")


def test_a_broker_that_was_silent_by_the_same_connection_is_believed() -> None:
    it = Heard()
    it.after(0, a="xyz")
    it.after(1_000, a=None)
    assert ["x", "y"] == it.after(1_000, a="xy")


def test_a_list_that_is_the_same_is_no_news() -> None:
    it = Heard()
    it.after(0, a="xy")
    assert not it.lists.differs(MemberList("a", ("y", "x")))
    assert not it.lists.differs(MemberList("a", None))
    assert it.lists.differs(MemberList("a", ("x",)))
    assert it.lists.differs(MemberList("b", ("x", "y")))


def test_nobody_is_kept_who_is_listed_again() -> None:
    """What a connection's loss has made of him is over: when he leaves now, he has left."""
    it = Heard()
    it.after(0, a="xyz")
    it.restarted("a")
    assert ["x", "y", "z"] == it.after(2_000, a="x")
    assert it.lists.next_ms(it.now_ms) is not None
    assert ["x", "y", "z"] == it.after(1_000, a="xyz")
    assert it.lists.next_ms(it.now_ms) is None, "nothing is waited for"
    assert ["x", "z"] == it.after(1_000, a="xz")
