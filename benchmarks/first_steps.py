"""How long README's first steps take, from an empty folder to the first message handled.

    python -m benchmarks.first_steps --runs 3

A new environment with this checkout installed into it, `framework-app dev` on README's handler, and README's first
order sent. pip looks where it is set up to look, and its cache is as it is. Times count from the start.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.arguments import positive
from benchmarks.machine import ROOT
from benchmarks.turns import in_turns, table, write_json
from tests.interop.roles import free_port

SENT = '{"number": 17, "paid": true}'


def measured(_: str, __: str, ___: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder, began = Path(name), time.monotonic()
        handler = re.search(r"```python\n(# orders\.py\n.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
        assert handler is not None
        (folder / "orders.py").write_text(handler[1])
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        python = str(folder / "venv" / "bin" / "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, str(ROOT)], check=True)
        installed_s = time.monotonic() - began
        program = folder / "venv" / "bin" / "framework-app"
        clean = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        with subprocess.Popen(
            [program, "dev", "orders.py", "--port", str(free_port("dev", []))], cwd=folder, env=clean, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as dev:  # fmt: skip
            try:
                address = _line(dev, "ready:").split("namesrv=")[1].split()[0]
                ready_s = time.monotonic() - began
                words = ["send", "orders", SENT, "--key", "17", "--name-server", address]
                subprocess.run([program, *words], cwd=folder, env=clean, check=True, stdout=subprocess.DEVNULL)
                _line(dev, "billed 17")
                handled_s = time.monotonic() - began
            finally:
                dev.terminate()
        return {"installed_s": installed_s, "ready_s": ready_s, "handled_s": handled_s}


def _line(dev: subprocess.Popen[str], begins: str) -> str:
    assert dev.stdout is not None
    for line in dev.stdout:
        if line.startswith(begins):
            return line
    raise SystemExit(f"framework-app dev ended before it said {begins!r}")


def main(arguments: list[str] | None = None) -> int:
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_steps", description=about)
    parser.add_argument("--runs", type=positive, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    samples = in_turns([""], ["ours"], options.runs, measured)
    print(table(samples))
    if options.json:
        write_json(options.json, "first-steps", samples, vars(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
