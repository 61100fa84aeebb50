"""What `deploy/` holds, read as the tools read it that it is written for."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from framework.core.limits import stop_ms
from framework.settings import sources
from framework.settings.schema import AppSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
CONTAINERFILE = DEPLOY / "Containerfile"
UNIT = DEPLOY / "systemd" / "order-desk.service"
WORKLOADS = ("StatefulSet", "Deployment")
SETTINGS = "framework-app.yaml"


@dataclass(frozen=True, slots=True)
class Instruction:
    """A line of a Containerfile, joined where backslashes break it."""

    name: str
    text: str

    @property
    def command(self) -> list[str] | None:
        """As a list, where it is written as one."""
        found = self.text[self.text.index("[") :] if "[" in self.text else ""
        return [str(word) for word in json.loads(found)] if found else None

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)


def instructions() -> list[Instruction]:
    text = re.sub(r"\\\n", " ", "\n".join(line for line in CONTAINERFILE.read_text().splitlines() if line[:1] != "#"))
    split = (line.partition(" ") for line in text.splitlines() if line.strip())
    return [Instruction(name, " ".join(rest.split())) for name, _, rest in split]


def stages() -> list[list[Instruction]]:
    found: list[list[Instruction]] = []
    for each in instructions():
        if each.name == "FROM":
            found.append([])
        found[-1].append(each)
    return found


def of_image(name: str) -> Instruction:
    """The instruction of that name in the last stage: the image that is left."""
    (found,) = [each for each in stages()[-1] if each.name == name]
    return found


def image_environment() -> dict[str, str]:
    return dict(word.split("=", 1) for word in of_image("ENV").words)


def unit() -> dict[str, dict[str, list[str]]]:
    """Section -> key -> its values, in their order."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(section, {}).setdefault(key, []).append(value)
    return found


def manifests() -> dict[Path, list[dict[str, Any]]]:
    return {path: list(yaml.safe_load_all(path.read_text())) for path in sorted(KUBERNETES.glob("*.yaml"))}


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [each for documents in manifests().values() for each in documents if each["kind"] == kind]
    return dict(found)


def pod(workload: dict[str, Any]) -> dict[str, Any]:
    return dict(workload["spec"]["template"]["spec"])


def container(workload: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod(workload)["containers"]
    return dict(found)


def settings_of(text: str, folder: Path, environment: dict[str, str] | None = None) -> AppSettings:
    path = folder / SETTINGS
    path.write_text(text)
    return sources.load(path, environment=environment or {})


def stop_s(settings: AppSettings, before_s: float = 0) -> float:
    """How long a stop takes at most. `before_s`: what a preStop hook takes, since the grace has begun by then."""
    return before_s + stop_ms(settings.app.drain, settings.cluster.request_timeout) / 1000


def commands(value: Any) -> Iterator[list[str]]:
    """Every command in a manifest."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "command":
                yield each
            else:
                yield from commands(each)
    elif isinstance(value, list):
        for each in value:
            yield from commands(each)
