"""One cluster in virtual time, from a seed or a plan: `python -m tests.simulation.one --seed 7`.

Brokers, applications, faults, and what must hold. Exit 0 or 1; the last line ends with the trace.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode
from framework.cli.main import CommandParser
from framework.cli.shown import explained
from framework.errors import FrameworkError, StoreError, nearest, shorten
from framework.mistakes import UsageWrong
from framework.model.durations import to_ms
from tests.simulation import timeline, timeline_page
from tests.simulation.failures import plan_text
from tests.simulation.failures.deadline import deadline
from tests.simulation.failures.difference import Difference, Event
from tests.simulation.failures.plan_text import as_object, replay_line
from tests.simulation.failures.shrink import Shrunk, shrink
from tests.simulation.faults.kinds import ALL_KINDS, NAMES, FaultKind, kind_named
from tests.simulation.history import History
from tests.simulation.plans.plan import Plan, clashes, draw
from tests.simulation.plans.ways import WAYS
from tests.simulation.simulation import Verdict, play, replay_command
from tests.simulation.timeline import BREAK

LENGTH, SHRINK_FOR = "60s", "2m"
LINES_MAX = 400
APPS_MAX = 100
SEED_MAX = 10**18
DECIDED_BY_PLAN = ("seed", "length", "faults", "ways", "apps", "brokers", "policy")
"""Options that say what `--plan` says."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=options.number(0, SEED_MAX), help="decides the whole run (default 0)")
    parser.add_argument(
        "--for", dest="length", metavar="TIME", type=options.length, help="virtual time, such as 10m (default 60s)"
    )
    parser.add_argument("--faults", metavar="all|none|a,b", help="kinds of faults (default: a few at random)")
    parser.add_argument("--ways", metavar="none|a,b", help="ways of consuming (default: a few at random)")
    parser.add_argument(
        "--apps", type=options.number(1, APPS_MAX), metavar="N", help="number of applications (default: random)"
    )
    parser.add_argument(
        "--brokers", type=options.number(1, 16), metavar="N", help="number of logical brokers (default: random)"
    )
    parser.add_argument(
        "--policy", choices=("fifo", "shuffle", "pct"), help="how the next task is chosen (default: random)"
    )
    parser.add_argument(
        "--plan", metavar="JSON|FILE", help="the whole plan, as --shrink and `make sim FOR=20m` write it"
    )
    parser.add_argument(
        "--shrink", action="store_true", help="if the run fails, search the smallest plan that fails in the same way"
    )
    parser.add_argument(
        "--shrink-for",
        metavar="TIME",
        type=options.length,
        help=f"the same; end the search after this long, with the smallest plan so far (default {SHRINK_FOR})",
    )
    parser.add_argument("--html", metavar="FILE", help="write the timeline as one HTML page")
    parser.add_argument("--timeline", action="store_true", help="print the timeline even if no invariant was broken")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.html:
        _try_to_write(Path(arguments.html))
    plan = _plan(arguments)
    if not arguments.json:
        output.say(f"plan: {plan}")
    shrunk = _shrunk(plan, arguments) if arguments.shrink or arguments.shrink_for else None
    if shrunk is None:
        report = Report(plan, *play(plan), _replay(arguments, plan))
    else:
        smallest = shrunk.smallest
        report = Report(smallest.plan, smallest.verdict, smallest.history, replay_line(smallest.plan), shrunk)
    if arguments.html:
        _write_page(Path(arguments.html), report)
    if arguments.json:
        output.say(json.dumps(_as_object(report)))
    else:
        _print(report, is_timeline=arguments.timeline)
    return ExitCode.CLEAN if report.verdict.is_ok else ExitCode.FAILED


@dataclass(frozen=True, slots=True)
class Report:
    """What a run is told of by: the run itself, or the smallest one that was found."""

    plan: Plan
    verdict: Verdict
    history: History
    replay: str
    shrunk: Shrunk | None = None


def _plan(arguments: argparse.Namespace) -> Plan:
    if arguments.plan is None:
        kinds, ways = _kinds(arguments.faults), _ways(arguments.ways)
        for clash in clashes(ways or (), kinds or ()):
            raise UsageWrong(f"--ways and --faults: {clash}")
        return draw(
            arguments.seed or 0,
            seconds=to_ms(arguments.length or LENGTH) / 1000,
            kinds=kinds,
            ways=ways,
            apps=arguments.apps,
            brokers=arguments.brokers,
            policy=arguments.policy,
        )
    for name in DECIDED_BY_PLAN:
        if getattr(arguments, name) is not None:
            option = "for" if name == "length" else name
            raise UsageWrong(f"--plan says what --{option} says; leave one of them out")
    text: str = arguments.plan
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageWrong(f"--plan {shorten(arguments.plan)}: neither JSON nor a file: {error}") from None
    return plan_text.read(text)


# -- the search for a smaller plan


def _shrunk(plan: Plan, arguments: argparse.Namespace) -> Shrunk | None:
    """None for a run that holds, which is said at once: there is nothing to make smaller."""
    with deadline(to_ms(arguments.shrink_for or SHRINK_FOR) / 1000) as until:

        def tell(runs: int, smaller: Plan) -> None:
            _progress(f"{runs} runs, {until.left_s:.0f} s left: {smaller}")

        shrunk = shrink(plan, is_over=until.is_over, tell=tell)
    if shrunk is None:
        _progress("the run holds, so there is nothing to make smaller")
        return None
    end = "nothing more can be left out" if shrunk.is_finished else "the time is over"
    _progress(f"{shrunk.runs} runs: {end}")
    return shrunk


def _progress(line: str) -> None:
    output.tell(f"shrink: {line}")
    sys.stderr.flush()


# -- options


def _try_to_write(path: Path) -> None:
    """A run may take minutes; that its page has no place is said before."""
    try:
        path.open("a").close()
    except OSError as error:
        raise StoreError(f"--html {shorten(str(path))}: {error.strerror}") from error


def _kinds(text: str | None) -> Sequence[FaultKind] | None:
    if not text:
        return None
    if text in {"all", "none"}:
        return ALL_KINDS if text == "all" else ()
    return [kind_named(name) for name in _known("--faults", "kind", text, NAMES)]


def _ways(text: str | None) -> Sequence[str] | None:
    if not text:
        return None
    return () if text == "none" else _known("--ways", "way", text, tuple(WAYS))


def _known(option: str, what: str, text: str, names: Sequence[str]) -> list[str]:
    for name in text.split(","):
        if name not in names:
            known = nearest(name, names) or "; known: " + ", ".join(names)
            raise UsageWrong(f"{option}: no {what} {name!r}{known}")
    return text.split(",")


def _replay(arguments: argparse.Namespace, plan: Plan) -> str:
    if arguments.plan is not None:
        return replay_line(plan)
    given = {f"--{name}": getattr(arguments, name) for name in ("apps", "brokers", "policy")}
    return replay_command(plan) + "".join(f" {option} {value}" for option, value in given.items() if value)


# -- what is printed


def _write_page(path: Path, report: Report) -> None:
    title = f"Simulation of seed {report.plan.seed}"
    text = timeline_page.page(report.history, report.verdict.violations, title=title, replay=report.replay)
    path.write_text(text, encoding="utf-8")


def _print(report: Report, *, is_timeline: bool) -> None:
    verdict = report.verdict
    if report.shrunk is not None:
        output.say(f"smallest: {report.plan}")
    if not verdict.is_ok or is_timeline:
        for line in _around_the_first_break(list(timeline.lines(report.history, verdict.violations))):
            output.say(line)
    for violation in verdict.violations:
        output.say(f"broken: {violation}")
    if report.shrunk is not None:
        for line in _difference(report.shrunk):
            output.say(line)
    if not verdict.is_ok:
        output.say(report.replay)
    output.say(_last_line(verdict))


def _around_the_first_break(lines: list[str]) -> Iterator[str]:
    """As many as are worth reading, the first break in their middle; without one the last lines."""
    first = next((i for i, line in enumerate(lines) if BREAK in line), len(lines))
    until = min(max(first + LINES_MAX // 2, LINES_MAX), len(lines))
    begin = max(until - LINES_MAX, 0)
    if begin:
        yield f"... {begin} lines before; --html FILE has them all"
    yield from lines[begin:until]
    if until < len(lines):
        yield f"... {len(lines) - until} lines after; --html FILE has them all"


def _difference(shrunk: Shrunk) -> Iterator[str]:
    if shrunk.nearest is None:
        yield "differs: no plan that holds was found near the smallest one that fails"
        return
    for name, found in (("differs", shrunk.difference), ("then", shrunk.consequence)):
        if found is not None:
            yield f"{name}: fails with {found.failing or 'nothing'}"
            yield f"{name}: holds with {found.holding or 'nothing'}"
    yield f"holds: {replay_line(shrunk.nearest.plan)}"


def _as_object(report: Report) -> dict[str, object]:
    verdict = report.verdict
    told: dict[str, object] = {
        "seed": verdict.plan.seed,
        "plan": str(verdict.plan),
        "violations": [{"truth": each.truth, "fact": each.fact, "at": each.at} for each in verdict.violations],
        "faults": dict(sorted(verdict.fired.items())),
        "marks": dict(sorted(verdict.marks.items())),
        "virtual_s": round(verdict.virtual_s, 3),
        "steps": verdict.steps,
        "trace": verdict.trace,
    }
    if report.shrunk is not None:
        told["shrunk"] = _shrunk_object(report.shrunk)
    return told


def _shrunk_object(shrunk: Shrunk) -> dict[str, object]:
    nearest = shrunk.nearest
    return {
        "runs": shrunk.runs,
        "is_finished": shrunk.is_finished,
        "plan": as_object(shrunk.smallest.plan),
        "replay": replay_line(shrunk.smallest.plan),
        "holds": None if nearest is None else as_object(nearest.plan),
        "differs": _difference_object(shrunk.difference),
        "then": _difference_object(shrunk.consequence),
    }


def _difference_object(difference: Difference | None) -> dict[str, object] | None:
    if difference is None:
        return None
    return {"fails": _event_object(difference.failing), "holds": _event_object(difference.holding)}


def _event_object(event: Event | None) -> dict[str, object] | None:
    return None if event is None else {"at": event.at, "who": event.who, "what": event.what}


def _last_line(verdict: Verdict) -> str:
    fired = ",".join(f"{name}:{count}" for name, count in sorted(verdict.fired.items())) or "none"
    return (
        f"run: seed={verdict.plan.seed} violations={len(verdict.violations)} virtual_s={verdict.virtual_s:.0f} "
        f"steps={verdict.steps} fired={fired} trace={verdict.trace}"
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = CommandParser(prog=plan_text.ONE_RUN, description=__doc__)
    add_options(parser)
    try:
        return execute(parser.parse_args(words))
    except FrameworkError as error:
        return explained.say(error)


if __name__ == "__main__":
    sys.exit(main())
