"""Every block of every page: what readers type is parsed, what they copy is loaded."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from framework.hooks.host import PluginHost
from framework.settings import sources
from tests.docs import words
from tests.docs.blocks import PAGES, Block, blocks, everywhere, page_id

KINDS = {"text", "python", "yaml", "sh", "console", "json", "ini", "dockerfile", "{toctree}"}


def of_settings(block: Block) -> bool:
    is_part = block.text.startswith(" ")  # of a manifest, which `test_deploy` looks for
    is_part |= block.name.startswith("deploy/")
    return not is_part and not re.search(
        r"^(apiVersion|services|groups|scrape_configs|users):", block.text, re.MULTILINE
    )


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_are_what_the_parser_takes(page: Path) -> None:
    typed = [(block, line) for block in blocks(page, "sh") for line in words.lines(block.text)]
    typed += [
        (block, line[2:])
        for block in blocks(page, "console")
        for line in words.lines(block.text)
        if line.startswith("$ ")
    ]

    assert [] == [f"{block}: {line}: {wrong}" for block, line in typed if (wrong := words.mistake(line))]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_settings_are_what_a_start_takes(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(block for block in blocks(page, "yaml") if of_settings(block)):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block.text)
        names = re.findall(r"\$\{env:(\w+)\}", block.text)
        values = {name: {"NAME_SERVER": "localhost:9876"}.get(name, "pod-0-with-twenty-signs") for name in names}
        settings = sources.load(path, environment=values)
        assert settings, block
        named = {name: each for name, each in settings.plugins.settings.items() if name in plugins().models}
        for name, each in named.items():  # of our own, which are installed here
            assert plugins().models[name].model_validate(each), block


@cache
def plugins() -> PluginHost:
    return PluginHost(tolerant=True)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_is_of_a_kind_that_a_test_runs(page: Path) -> None:
    assert [] == [f"{block}: ```{block.language}" for block in blocks(page) if block.language not in KINDS]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_no_block_hides_from_these_tests(page: Path) -> None:
    """One that is indented, and not fenced, is seen by no test. Lines behind a list's are its own."""
    fenced = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2 *$", re.DOTALL | re.MULTILINE)

    assert [] == re.findall(r"(?<=\n\n)    [^\s].*", fenced.sub("", page.read_text()))


@pytest.mark.parametrize("block", everywhere("json"), ids=str)
def test_json_is_json(block: Block) -> None:
    for line in block.text.splitlines():
        assert json.loads(line)
