"""`framework-app audit`: counts the file's deliveries and sends by group, topic and outcome."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from framework.harmless import plain
from framework.mistakes import FileUnreadable, WrongValue

CLEAN = 0


class Summary:
    """Count the deliveries of the audit file, and the sends (group `-`), by group, topic and outcome."""

    def __init__(self, file: str) -> None:
        self._file = file

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--group", help="count only this group")

    def execute(self, arguments: argparse.Namespace, _settings: object) -> int:
        if not self._file:
            raise WrongValue("plugins.settings.audit: no file; write file: audit.jsonl")
        try:
            with Path(self._file).open(encoding="utf-8", errors="surrogateescape") as lines:
                counted = counts(lines, arguments.group)
        except OSError as error:
            raise FileUnreadable(f"plugins.settings.audit.file {self._file!r}: {error.strerror}") from None
        for (group, topic, outcome), count in sorted(counted.items()):
            sys.stdout.write(f"{plain(f'{group} {topic} {outcome} {count}')}\n")
        return CLEAN


def counts(lines: Iterable[str], group: str | None) -> Counter[tuple[str, str, str]]:
    """A line that was cut by a crash is passed over."""
    found: Counter[tuple[str, str, str]] = Counter()
    for line in lines:
        try:
            each = json.loads(line)
            key = (str(each.get("group", "-")), str(each["topic"]), str(each["outcome"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if group in {None, key[0]}:
            found[key] += 1
    return found
