"""What operators copy from the pages about deployment is what the files in `deploy/` say, which `tests/deploy` runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from framework.cli import main
from framework.core.limits import after_the_drain_ms
from framework.settings.schema import AppSettings
from tests.cli.test_usual_mistakes import SHOP
from tests.docs.blocks import DOCS, ROOT, Block, blocks, everywhere, page_id

FOLDER = DOCS / "deploy"
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if page.name != "proxy.md"]
SHOWN = [block for page in PAGES for block in blocks(page, "yaml", "ini", "dockerfile")]


@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_what_a_page_shows_is_what_a_file_says(block: Block) -> None:
    files = [path for path in (ROOT / "deploy").rglob("*") if path.is_file()]

    assert [path for path in files if block.text in path.read_text()]


def test_a_warning_is_what_check_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = blocks(FOLDER / "kubernetes.md", "text")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shop", raising=False)  # another page's
    (tmp_path / "shop.py").write_text(SHOP)

    main.run(["check", "shop.py", "--set", "app.drain=2m", "--set", "app.killed_after=1m"])
    del sys.modules["shop"]
    assert block.text.strip() in capsys.readouterr().out.splitlines()


def test_every_other_text_is_played() -> None:
    """What two terminals show: README.md and the tutorial, by `test_first_steps`."""
    assert {"README", "tutorial", "deploy/kubernetes"} == {page_id(block.page) for block in everywhere("text")}


def test_the_sum_of_a_stop_is_right() -> None:
    """The table's rows, and the setting that they begin with."""
    text = (FOLDER / "kubernetes.md").read_text()
    rows = text.partition("| part of a stop |")[2].partition("**together**")[0]
    seconds = [int(row.split("|")[-2].strip().removesuffix(" s")) for row in rows.splitlines() if row.endswith(" s |")]
    settings = AppSettings()

    assert [0, settings.app.drain / 1000, after_the_drain_ms(settings.cluster.request_timeout) / 1000] == [
        *seconds[:2],
        sum(seconds[2:]),
    ]
    assert f"**{sum(seconds)} s: write 60**" in text
