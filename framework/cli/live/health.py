"""Say whether a running application lives, or with --ready is ready, and why not; exits with 0 or 1. Reads only.

It lives while its event loop turns and no queue stands still for no known reason: what a restart would mend. It is
ready when its groups have joined and are balanced and nothing is in their way. A paused group is ready. A broker that
is away is no reason to restart.
"""

from __future__ import annotations

import argparse
from typing import Any

from framework.cli import output
from framework.cli.exit_codes import ExitCode
from framework.cli.live.figures import pause_fields, pause_text
from framework.cli.live.find import SeveralRun, Unfound, add_target, ask_it
from framework.net.real_clock import RealClock
from framework.runtime.observe.probes import verdict

EXAMPLES = """\
examples:
  framework-app health                   is it alive? for a liveness probe
  framework-app health --ready --json    may it get work? for a readiness probe
  HEALTHCHECK --interval=10s CMD ["framework-app", "health"]
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ready", action="store_true", help="whether it is ready, and not only alive")
    add_target(parser)


def execute(arguments: argparse.Namespace) -> int:
    asked = "ready" if arguments.ready else "live"
    try:
        workers = ask_it(arguments, {"ask": "health", "ready": arguments.ready})
    except Unfound as error:
        if isinstance(error, SeveralRun):
            raise
        workers, reasons = [], [f"{error} [{error.id}]"]
    else:
        reasons = list(verdict("ready" if arguments.ready else "live", workers).reasons)
    pauses = {each["group"]: each["pause"] for worker in workers for each in worker.get("paused", ())}
    reasons = [" ".join(each.split()) for each in reasons]
    if arguments.json:
        row: dict[str, Any] = {
            "asked": asked, "ok": not reasons, "reasons": reasons, "workers": len(workers),
            "paused": [{"group": group, **(pause_fields(pause) or {})} for group, pause in pauses.items()],
        }  # fmt: skip
        output.say(output.as_json(row))
    else:
        now_ms = RealClock().now_ms()
        notes = [f"{group} is paused {pause_text(pause, now_ms)}" for group, pause in pauses.items()]
        said = [f"not {asked}: {reasons[0]}", *reasons[1:]] if reasons else [asked]
        output.say("; ".join([*said, *notes]))
    return ExitCode.FAILED if reasons else ExitCode.CLEAN
