"""Run a whole cluster in virtual time from a seed: brokers, applications, faults, and what must hold. Exit 0 or 1."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode
from framework.errors import ConfigurationError, StoreError, nearest, shorten
from framework.model.durations import to_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from framework.testing.swarm.faults.kinds import FaultKind
    from framework.testing.swarm.simulation import Verdict

LINES_MAX = 400
APPS_MAX = 100


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="decides the whole run (default 0)")
    parser.add_argument(
        "--for",
        dest="length",
        default="60s",
        metavar="TIME",
        type=options.duration,
        help="virtual time, such as 10m (default 60s)",
    )
    parser.add_argument(
        "--faults", default="", metavar="all|none|a,b", help="kinds of faults (default: a few at random)"
    )
    parser.add_argument("--ways", default="", metavar="none|a,b", help="ways of consuming (default: a few at random)")
    parser.add_argument(
        "--apps", type=options.number(1, APPS_MAX), metavar="N", help="number of applications (default: random)"
    )
    parser.add_argument(
        "--brokers", type=options.number(1, 16), metavar="N", help="number of logical brokers (default: random)"
    )
    parser.add_argument(
        "--policy", choices=("fifo", "shuffle", "pct"), help="how the next task is chosen (default: random)"
    )
    parser.add_argument("--html", metavar="FILE", help="write the timeline as one HTML page")
    parser.add_argument("--timeline", action="store_true", help="print the timeline even if no invariant was broken")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")


def execute(arguments: argparse.Namespace) -> int:
    from framework.testing.swarm import timeline, timeline_page
    from framework.testing.swarm.plans.plan import clashes, draw
    from framework.testing.swarm.simulation import play, replay_command

    if arguments.html:
        _try_to_write(Path(arguments.html))
    kinds, ways = _kinds(arguments.faults), _ways(arguments.ways)
    for clash in clashes(ways or (), kinds or ()):
        raise ConfigurationError(f"--ways and --faults: {clash}")
    plan = draw(
        arguments.seed,
        seconds=to_ms(arguments.length) / 1000,
        kinds=kinds,
        ways=ways,
        apps=arguments.apps,
        brokers=arguments.brokers,
        policy=arguments.policy,
    )
    if not arguments.json:
        output.say(f"plan: {plan}")
    verdict, history = play(plan)
    replay = _replay(arguments, replay_command(plan))
    if arguments.html:
        title = f"Simulation of seed {plan.seed}"
        text = timeline_page.page(history, verdict.violations, title=title, replay=replay)
        Path(arguments.html).write_text(text, encoding="utf-8")
    if arguments.json:
        output.say(json.dumps(_as_object(verdict)))
    else:
        if not verdict.is_ok or arguments.timeline:
            shown = list(timeline.lines(history, verdict.violations))
            for line in shown[-LINES_MAX:]:
                output.say(line)
        for violation in verdict.violations:
            output.say(f"broken: {violation}")
        if not verdict.is_ok:
            output.say(replay)
        output.say(_last_line(verdict))
    return ExitCode.CLEAN if verdict.is_ok else ExitCode.FAILED


def _try_to_write(path: Path) -> None:
    """A run may take minutes; that its page has no place is said before."""
    try:
        path.open("a").close()
    except OSError as error:
        raise StoreError(f"--html {shorten(str(path))}: {error.strerror}") from error


def _kinds(text: str) -> Sequence[FaultKind] | None:
    from framework.testing.swarm.faults.kinds import ALL_KINDS, NAMES, kind_named

    if not text:
        return None
    if text in {"all", "none"}:
        return ALL_KINDS if text == "all" else ()
    return [kind_named(name) for name in _known("--faults", "kind", text, NAMES)]


def _ways(text: str) -> Sequence[str] | None:
    from framework.testing.swarm.plans.ways import WAYS

    if not text:
        return None
    return () if text == "none" else _known("--ways", "way", text, tuple(WAYS))


def _known(option: str, what: str, text: str, names: Sequence[str]) -> list[str]:
    for name in text.split(","):
        if name not in names:
            known = nearest(name, names) or "; known: " + ", ".join(names)
            raise ConfigurationError(f"{option}: no {what} {name!r}{known}")
    return text.split(",")


def _replay(arguments: argparse.Namespace, command: str) -> str:
    given = {
        "--apps": arguments.apps,
        "--brokers": arguments.brokers,
        "--policy": arguments.policy,
    }
    return command + "".join(f" {option} {value}" for option, value in given.items() if value)


def _as_object(verdict: Verdict) -> dict[str, object]:
    return {
        "seed": verdict.plan.seed,
        "plan": str(verdict.plan),
        "violations": [{"truth": each.truth, "fact": each.fact, "at": each.at} for each in verdict.violations],
        "faults": dict(sorted(verdict.fired.items())),
        "marks": dict(sorted(verdict.marks.items())),
        "virtual_s": round(verdict.virtual_s, 3),
        "steps": verdict.steps,
        "trace": verdict.trace,
    }


def _last_line(verdict: Verdict) -> str:
    fired = ",".join(f"{name}:{count}" for name, count in sorted(verdict.fired.items())) or "none"
    return (
        f"simulate: seed={verdict.plan.seed} violations={len(verdict.violations)} virtual_s={verdict.virtual_s:.0f} "
        f"steps={verdict.steps} fired={fired} trace={verdict.trace}"
    )
