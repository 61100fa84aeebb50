"""OrderLease: trust counted from the sending, renewed in time, and never longer than the broker's own patience."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.core import limits
from framework.core.order_lease import OrderLease
from tests.simulation.left_out import left_out

BROKER_KEEPS_MS = 60_000


def held_since(sent_ms: int) -> OrderLease:
    lease = OrderLease(sent_ms)
    assert lease.granted(lease.ask(sent_ms, "a:1"), sent_ms + 5)
    return lease


def test_a_new_lease_is_asked_for_at_once() -> None:
    lease = OrderLease(100)

    assert lease.is_due(100)
    assert (False, False, False) == (lease.is_granted, lease.holds(100), lease.may_be_held)
    assert 100 == lease.next_ms()


def test_trust_is_counted_from_the_sending() -> None:
    """A reply that was long on its way says nothing of when the broker began to count."""
    lease = OrderLease(1_000)
    asking = lease.ask(1_000)

    assert lease.granted(asking, 11_000)
    assert lease.holds(1_000 + limits.LEASE_TRUST_MS - 1)
    assert not lease.holds(1_000 + limits.LEASE_TRUST_MS)


def test_without_the_safeguard_it_would_be_counted_from_the_reply() -> None:
    """So that the mutant is one."""
    lease = OrderLease(1_000)
    asking = lease.ask(1_000)
    with left_out("a lease is counted from its request"):
        lease.granted(asking, 11_000)

    assert lease.holds(1_000 + limits.LEASE_TRUST_MS)


def test_a_reply_that_comes_too_late_grants_nothing() -> None:
    lease = OrderLease(0)
    asking = lease.ask(0)

    assert not lease.granted(asking, limits.LEASE_TRUST_MS)
    assert (False, True) == (lease.is_granted, lease.may_be_held)
    assert lease.is_due(limits.LEASE_TRUST_MS), "and is asked for again at once"


def test_it_is_renewed_in_time_and_a_renewal_is_no_news() -> None:
    lease = held_since(0)

    assert not lease.is_due(limits.LEASE_RENEW_MS - 1)
    assert limits.LEASE_RENEW_MS == lease.next_ms()
    assert lease.is_due(limits.LEASE_RENEW_MS)
    asking = lease.ask(limits.LEASE_RENEW_MS)
    assert not lease.is_due(limits.LEASE_RENEW_MS), "one request at a time"
    assert limits.LEASE_TRUST_MS == lease.next_ms(), "it may end while the answer is awaited"
    assert not lease.granted(asking, limits.LEASE_RENEW_MS + 1)
    assert lease.holds(limits.LEASE_RENEW_MS + limits.LEASE_TRUST_MS - 1)


def test_a_lost_renewal_stalls_nothing_and_is_made_good_soon() -> None:
    lease = held_since(0)
    lease.ask(10_000)

    lease.failed(13_000)
    assert lease.holds(13_000)
    assert not lease.is_due(13_000 + limits.LEASE_RETRY_MS - 1)
    assert lease.is_due(13_000 + limits.LEASE_RETRY_MS)


def test_its_end_is_said_once() -> None:
    lease = held_since(0)

    assert not lease.expired(limits.LEASE_TRUST_MS - 1)
    assert lease.expired(limits.LEASE_TRUST_MS)
    assert not lease.expired(limits.LEASE_TRUST_MS)
    assert not lease.is_granted


def test_a_refusal_takes_it_away_at_once() -> None:
    lease = held_since(0)

    assert lease.refused(lease.ask(10_000), 10_005)
    assert (False, False) == (lease.holds(10_005), lease.may_be_held)
    assert not lease.refused(lease.ask(11_005), 11_010), "there was nothing to lose"
    assert lease.is_due(11_010 + limits.LEASE_RETRY_MS)


def test_a_lost_connection_takes_it_away_and_what_was_on_its_way_with_it() -> None:
    """The answer may be the word of a broker that has forgotten it since."""
    lease = held_since(0)
    asking = lease.ask(10_000)

    assert lease.unconfirmed(10_001)
    assert not lease.holds(10_001)
    assert not lease.granted(asking, 10_002)
    assert not lease.is_granted
    assert lease.is_due(10_002)
    assert lease.granted(lease.ask(10_002), 10_003)


def test_a_refusal_from_before_the_loss_is_no_second_loss() -> None:
    lease = held_since(0)
    asking = lease.ask(10_000)
    lease.unconfirmed(10_001)

    assert not lease.refused(asking, 10_002)


@given(st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 40_000), st.sampled_from("grfu")), max_size=20))
def test_it_is_never_trusted_when_the_broker_could_have_given_it_to_another(
    story: list[tuple[int, int, str]],
) -> None:
    """The broker counts 60 s from some moment between the sending and the answer; the earliest is the sending."""
    lease, now_ms, sent_ms = OrderLease(0), 0, None
    for pause_ms, wait_ms, what in story:
        now_ms += pause_ms
        lease.expired(now_ms)
        if lease.is_due(now_ms):
            asked_ms, asking = now_ms, lease.ask(now_ms)
            now_ms += wait_ms
            match what:
                case "g":
                    lease.granted(asking, now_ms)
                    sent_ms = asked_ms
                case "r":
                    lease.refused(asking, now_ms)
                    sent_ms = None
                case "u":
                    lease.unconfirmed(now_ms)
                    lease.granted(asking, now_ms)
                case _:
                    lease.failed(now_ms)
        if lease.holds(now_ms):
            assert sent_ms is not None
            assert now_ms < sent_ms + BROKER_KEEPS_MS


def test_its_repr_is_its_instrument_panel() -> None:
    assert "<OrderLease not held, due 3>" == repr(OrderLease(3))
    assert f"<OrderLease until {limits.LEASE_TRUST_MS}, due {limits.LEASE_RENEW_MS}>" == repr(held_since(0))
