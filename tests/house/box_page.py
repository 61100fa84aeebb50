"""The table of requests in `docs/broker-requests.md`, from the table of the box and the docstrings of its functions."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

from framework.broker import handlers
from framework.settings.models import one_line

BOX = Path(__file__).parents[2] / "docs" / "broker-requests.md"
_HEAD = "| code | request | what it is answered with | differences |\n|---:|---|---|---|\n"


def box_page() -> str:
    """The page as it is, with the table as it should be."""
    before, head, after = BOX.read_text(encoding="utf-8").partition(_HEAD)
    rest = re.sub(r"\A(?:\|.*\n)*", "", after)
    return before + head + "".join(_rows()) + rest


def _rows() -> list[str]:
    rows = []
    for code, place in sorted(handlers.TABLE.items()):
        family, _, name = place.partition(".")
        said = inspect.getdoc(getattr(import_module(f"{handlers.__name__}.{family}"), name)) or ""
        what, _, differences = said.partition("Differences: ")
        what = re.sub(r"\A\w+ \(\d+\): ", "", one_line(what)).removesuffix(".")
        what = f"{what[:1].lower()}{what[1:]}"
        rows.append(f"| {int(code)} | {code.name} | {what} | {one_line(differences) or 'none known.'} |\n")
    return rows
