"""Trace records, field by field as Java's decoder splits them."""

from __future__ import annotations

from framework.wire import trace


def test_the_three_records_have_java_s_fields_in_java_s_order() -> None:
    before = trace.before(17, "DefaultRegion", "billing", "R1", "ID", 2, "k1 k2")
    after = trace.after("R1", "ID", 5, "k1", 4, 22, "billing", success=False)
    published = trace.published(17, "here", "makers", "orders", "ID", "red", "k1", "b:1", 3, 4, 0, "OFF", success=True)

    assert "SubBefore\x0117\x01DefaultRegion\x01billing\x01R1\x01ID\x012\x01k1 k2\x02" == before
    assert "SubAfter\x01R1\x01ID\x015\x01false\x01k1\x014\x0122\x01billing\x02" == after
    assert (
        "Pub\x0117\x01here\x01makers\x01orders\x01ID\x01red\x01k1\x01b:1\x013\x014\x010\x01OFF\x01true\x02" == published
    )


def test_a_missing_text_is_a_word_because_java_loses_empty_fields_at_the_end() -> None:
    assert trace.before(0, "here", "billing", "R1", "ID", 0, None).endswith("\x010\x01null\x02")
    assert "\x01null\x01" in trace.after("R1", "ID", 0, "", 0, 1, "billing", success=True)


def test_what_is_written_is_read_again() -> None:
    text = "".join(
        (
            trace.published(17, "here", "makers", "orders", "ID", "red", "k1", "b:1", 3, 4, 0, "OFF", success=True),
            trace.before(18, "here", "billing", "R1", "ID", 2, None),
            trace.after("R1", "ID", 5, None, 4, 22, "billing", success=False),
        )
    )

    assert [
        trace.TracedSend(17, "makers", "orders", ("ID",), "b:1", 4, is_stored=True),
        trace.TracedStart(18, "billing", "R1", "ID", 2),
        trace.TracedEnd("R1", "ID", 5, is_success=False, code=4),
    ] == list(trace.decode(text))


def test_records_of_other_clients_and_of_older_ones() -> None:
    """A Java batch names its messages in one record; 4.x says neither an offset id nor a code."""
    batch = "Pub|9|r|g|orders|A,B|t|k|b:1|3|4|0|OFF|true|10.0.0.7".replace("|", trace.FIELD_END)
    old = "Pub|9|r|g|orders|A|t|k|b:1|3|4|0|false".replace("|", trace.FIELD_END)
    end = "SubAfter|R|A|5|true|k".replace("|", trace.FIELD_END)
    half = "EndTransaction|9|r|g|orders|A|t|k|b:1|2|TX|COMMIT_MESSAGE|false".replace("|", trace.FIELD_END)

    assert [
        trace.TracedSend(9, "g", "orders", ("A", "B"), "b:1", 4, is_stored=True),
        trace.TracedSend(9, "g", "orders", ("A",), "b:1", 4, is_stored=False),
        trace.TracedEnd("R", "A", 5, is_success=True, code=None),
        trace.TracedDecision(9, "g", "orders", ("A",), "COMMIT_MESSAGE"),
    ] == list(trace.decode(trace.RECORD_END.join((batch, old, end, half, ""))))


def test_what_is_no_record_is_left_out() -> None:
    """Anybody may write to the topic."""
    good = trace.before(18, "here", "billing", "R1", "ID", 2, None)
    torn = "SubBefore|x|r|g|R|ID|0|k".replace("|", trace.FIELD_END)

    assert ["R1"] == [
        each.request_id
        for each in trace.decode(f"Pub\x02hello\x02{torn}\x02{good}\x02\x02")
        if isinstance(each, trace.TracedStart)
    ]
