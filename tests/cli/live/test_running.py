"""The commands and a real `run --workers 2` with its broker: every process answers, and one that is gone is named."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from tests.cli.processes import command

SHOP = """
import time
from pathlib import Path

from framework import Message, consumer


@consumer("orders", "billing")
async def bill(order: Message) -> None: ...


while Path("held").exists():
    time.sleep(0.02)
"""


def test_two_workers_answer_as_one_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    settings = {"app": {"name": "shop", "handlers": ["shop"], "control": "control"}}
    (tmp_path / "framework-app.yaml").write_text(json.dumps(settings))
    where = ("--socket", str(tmp_path / "control"))

    def told(*words: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = main.run([*words, *where])
        return code, capsys.readouterr().out.splitlines()

    def rows(*words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in told(*words, "--json")[1]]

    with (
        command("broker", "--memory", folder=tmp_path) as broker,
        command(
            "run", "--workers", "2", "--name-server", broker.until("broker: ready").split("namesrv=")[1].split()[0],
            folder=tmp_path,
        ) as running,
    ):  # fmt: skip
        running.wait_until(lambda: told("health", "--ready") == (ExitCode.CLEAN, ["ready"]), "both ready")
        assert 0o600 == (tmp_path / "control").stat().st_mode & 0o777
        pictures = rows("snapshot")
        assert [0, 1] == [picture["worker"] for picture in pictures]
        assert [(0, True), (1, True)] == [(row["worker"], row["paused"]) for row in rows("pause", "billing", "--yes")]
        assert [True, True] == [picture["groups"][0]["is_paused"] for picture in rows("snapshot")]
        code, (line,) = told("health")
        assert (ExitCode.CLEAN, True) == (code, line.startswith("live; billing is paused by "))

        (tmp_path / "held").touch()
        os.kill(pictures[1]["process"], signal.SIGKILL)
        # Its parent starts another: that is no reason to restart all.
        both, codes = (("health", "--ready"), ("health",)), [ExitCode.FAILED, ExitCode.CLEAN]
        running.wait_until(lambda: codes == [told(*words)[0] for words in both], "live, and not ready")
        (tmp_path / "held").unlink()
        running.wait_until(lambda: told("health", "--ready")[0] == ExitCode.CLEAN, "both ready again")
        (first, second) = rows("snapshot")
        assert pictures[0]["process"] == first["process"]
        assert pictures[1]["process"] != second["process"]
        assert [True, False] == [picture["groups"][0]["is_paused"] for picture in (first, second)], (
            "as the settings say"
        )
        assert 0 == running.end()
        assert not list(tmp_path.glob("control*")), "nothing is left behind"
        assert ExitCode.UNREACHABLE == told("stacks")[0]
        assert 0 == broker.end()
