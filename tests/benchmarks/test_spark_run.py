"""The picture of a run: every figure of it is where it belongs."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from benchmarks.spark_run import LEFT, WIDTH, Point, drawn


def test_each_micro_batch_has_its_place_in_both_panels() -> None:
    points = [Point(0.0, 10, 200, 0), Point(5.0, 10, 100, 400), Point(10.0, 10, 50, 100)]

    picture = ET.fromstring(drawn(points, "a run"))

    lag, took = [
        [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
        for line in picture.iter("{http://www.w3.org/2000/svg}polyline")
    ]
    assert [LEFT, LEFT + WIDTH / 2, LEFT + WIDTH] == [at for at, _ in lag] == [at for at, _ in took]
    base = lag[0][1]
    assert [0.0, 130.0, 32.5] == [base - height for _, height in lag]
    assert [took[1][1] - took[0][1], took[2][1] - took[0][1]] == [65.0, 97.5]
    texts = {each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"a run", "400", "200", "10 s"} <= texts
