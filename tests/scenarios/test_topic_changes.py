"""What consumers do when somebody changes the topic or the group's offsets under their feet."""

from __future__ import annotations

from collections import Counter

from tests.simulation.checkers import commit_never_passes_a_gap, nothing_lost
from tests.simulation.facts import Remade, Reset, Sent
from tests.simulation.faults import topics
from tests.simulation.story import Story, all_handled


async def test_a_reset_brings_what_was_handled_again(story: Story) -> None:
    """Exactly what lies behind the new offset comes again, once, while the members stay."""
    await story.start_apps(2)
    await story.send("orders", 60)
    await story.within("2m").until(all_handled)
    before = Counter(story.handled())
    assert topics.reset_offsets(story.nemesis)
    (reset,) = story.history.of(Reset)
    again = {
        sent.message_id for sent in story.history.of(Sent) if sent.queue == reset.queue and sent.offset >= reset.offset
    }

    await story.sleep("30s")
    await story.within("2m").until(all_handled)

    assert again
    assert again == {message for message, count in (Counter(story.handled()) - before).items() if count}
    story.check()


async def test_a_topic_made_anew_is_consumed_from_its_beginning(story: Story) -> None:
    """Offsets of the former life are beyond its end: the brokers say so, and members begin at 0."""
    await story.start_apps(2)
    await story.send("orders", 60)
    await story.within("2m").until(all_handled)
    assert topics.remake_topic(story.nemesis)
    await story.sleep("30s")
    assert story.now > story.history.excused_until
    late = len(story.history.facts)
    assert 20 == await story.send("orders", 20)
    await story.within("2m").until(all_handled)

    fresh = {fact.message_id for fact in story.history.facts[late:] if isinstance(fact, Sent)}
    assert fresh <= set(story.handled())
    story.check()


async def test_what_a_topic_made_anew_has_before_its_members_see_it_is_not_skipped(story: Story) -> None:
    """They are sent to its end, which is behind them. What lies below is not what they have read."""
    await story.start_apps(2)
    await story.send("orders", 60)
    await story.within("2m").until(all_handled)
    assert topics.remake_topic(story.nemesis)
    await story.send("orders", 20, over="10s")
    await story.sleep("30s")

    remade = max(fact.at for fact in story.history.of(Remade))
    # The answer to one of the former life may have been on its way.
    fresh = {sent.message_id for sent in story.history.of(Sent) if sent.at > remade + 0.1}
    assert fresh
    assert set() == fresh - set(story.handled())


async def test_a_queue_that_was_away_is_consumed_when_it_is_back(story: Story) -> None:
    await story.start_apps(2)
    await story.send("orders", 20)
    assert topics.fewer_queues(story.nemesis)
    await story.send("orders", 40, over="10s")
    await story.heal()
    await story.send("orders", 40)
    await story.within("2m").until(all_handled)

    story.check(nothing_lost, commit_never_passes_a_gap)
