"""What the pages tell readers to type: each command line, held against the parser that would read it."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from importlib import import_module
from pathlib import Path

from framework.cli import main, plugin_commands
from framework.cli.exit_codes import ExitCode
from framework.model.contracts import COMMANDS
from tests.docs.blocks import ROOT

OTHERS = frozenset({
    "cat", "cd", "cp", "curl", "docker", "echo", "export", "helm", "install", "jq", "journalctl", "kill", "kubectl",
    "mkdir", "mqadmin", "pip", "pytest", "python", "python3", "source", "spark-submit", "systemctl", "tee", "useradd",
    "uvicorn",
})  # fmt: skip
"""Commands of the system; what follows them is not ours to judge, but for a command of ours that they start."""
TARGETS = frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
_PLACEHOLDERS = {"N": "3", "PORT": "9876", "SECONDS": "5"}


def lines(text: str) -> list[str]:
    """The command lines of a block, without comments; what a backslash breaks is one."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def mistake(line: str) -> str | None:
    """What is wrong with a command line."""
    for part in _commands(re.sub(r"\$\([^)]*\)", "SUBSTITUTED", re.sub(r"\bsudo -u \S+ ", "sudo ", line))):
        words = [word for word in part if not re.fullmatch(r"[A-Z_]+=.*", word)] if part else []
        while words and (words[0] in {"sudo", "exec", "time", "do"} or re.fullmatch(r"\w+=.*", words[0])):
            words = words[1:]
        if not words or words[0] in {"for", "done"}:
            continue
        found = _judged(words)
        if found:
            return found
    return None


def _commands(line: str) -> list[list[str]]:
    """A pipeline's or a list's commands; redirections are left out, brackets stand for what may be left out."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    found: list[list[str]] = [[]]
    words = list(lexer)
    skipped = False
    for word in words:
        if skipped:
            skipped = False
        elif set(word) <= set("<>"):
            skipped = True
        elif set(word) <= set("|&;"):
            found.append([])
        else:
            found[-1].append(word)
    return found


def _judged(words: list[str]) -> str | None:
    command = Path(words[0]).name
    if command == "framework-app":
        return usage(words[1:])
    if command == "make":
        unknown = [word for word in words[1:] if "=" not in word and word not in TARGETS]
        return f"there is no target {unknown[0]!r}" if unknown else None
    if command not in OTHERS:
        return f"{words[0]!r} is no command that pages may use; see {Path(__file__).name}"
    if "framework-app" in words and command != "pip":  # which installs a package of that name
        return usage(words[words.index("framework-app") + 1 :])
    if words[:2] == ["python", "-m"] and words[2].partition(".")[0] in {"framework", "tests", "benchmarks"}:
        path = ROOT / words[2].replace(".", "/")
        return None if path.with_suffix(".py").exists() or path.is_dir() else f"there is no module {words[2]}"
    return None


def usage(words: list[str]) -> str | None:
    """What our own parser has against this command line."""
    words = [_PLACEHOLDERS.get(word, word).strip("[]") for word in words]
    name, rest = words[0] if words else "", words[1:]
    if name in {"--help", "--version", "COMMAND"} or "--help" in rest:
        return None
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            main._parsed(parser_of(name), main._joined(rest))
    except SystemExit as error:
        return said.getvalue() if error.code == ExitCode.USAGE else None
    except KeyError:
        return f"there is no command {name!r}"
    return None


def parser_of(name: str) -> main.CommandParser:
    if name in COMMANDS:
        room = "live" if name in main.OF_RUNNING else "commands"
        module = import_module(f"framework.cli.{room}.{name}")
        command = main._command(name, module.__doc__)
        module.add_options(command)
        return command
    command = main._command(name, None)
    plugin_commands.add_options(command)
    _, host = plugin_commands.loaded([])
    plugin, found = host.commands[name]
    plugin_commands.prepare(plugin, name, found, command)
    return command
