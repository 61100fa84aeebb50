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
