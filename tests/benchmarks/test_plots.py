"""Plots say what they were given: each line and bar, its name, and nothing where nothing was measured."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from benchmarks.plots import BAR_W, Bars, Panel, drawn_bars, drawn_lines, short

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: ET.Element) -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SVG}text")]


def test_a_panel_has_a_line_for_each_name_that_was_measured() -> None:
    panels = [
        Panel(title="p99, ms", lines={"ours": [(20, 1.5), (1_000, 2.5)], "java": [(20, 2)]}),
        Panel(title="CPU & memory", lines={"ours": [(20, 0.0)]}, floor=0.1),
    ]
    picture = ET.fromstring(drawn_lines("Latency", ["ours", "java"], panels))

    assert 3 == len(picture.findall(f"{SVG}polyline"))
    assert 4 == len(picture.findall(f"{SVG}circle"))
    assert {"ours", "java", "p99, ms", "CPU & memory", "20", "1,000"} <= set(texts(picture))


def test_bars_are_as_long_as_their_values_and_say_them() -> None:
    bars = Bars(title="us a message", values={"ours": 1.7, "java": 8.5}, strong=frozenset({"ours"}))
    picture = ET.fromstring(drawn_bars("Cost", [bars]))

    widths = [float(each.get("width", 0)) for each in picture.findall(f"{SVG}rect")]
    assert [BAR_W * 0.2, BAR_W] == widths
    assert ["us a message", "ours", "1.70", "java", "8.50"] == texts(picture)


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.0213, "0.0213"), (1.7, "1.70"), (126_208.4, "126,208")])
def test_values_have_three_digits(value: float, text: str) -> None:
    assert text == short(value)
