"""`deploy/Containerfile`: held against rules, and what it starts is run here."""

from __future__ import annotations

import fnmatch
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.deploy import files
from tests.deploy.pods import Process, send, wait_until_ready
from tests.docs import words
from tests.patience import wait_until
from tests.ports import free_port

KNOWN = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "CMD"}


def copied() -> list[str]:
    """What is taken from the folder in which it is built."""
    taken = [each.words[:-1] for each in files.instructions() if each.name == "COPY"]
    return [word for words_ in taken if not words_[0].startswith("--from") for word in words_]


def test_it_is_of_instructions_that_we_know_and_begins_from_named_versions() -> None:
    assert {each.name for each in files.instructions()} <= KNOWN
    images = [each.words[0] for each in files.instructions() if each.name == "FROM"]
    assert all(":" in image and not image.endswith(":latest") for image in images)
    assert 1 == len(set(images)), "modules are built for one interpreter"
    assert images[-1].endswith("-slim")


def test_what_is_copied_is_there_and_reaches_the_build() -> None:
    lines = (files.ROOT / ".dockerignore").read_text().splitlines()
    assert "*" == lines[0], "nothing else is sent: no history, no environment, no secret beside"
    for path in copied():
        assert (files.ROOT / path).exists(), path
        assert any(fnmatch.fnmatch(path, f"{line[1:]}*") for line in lines if line.startswith("!")), path


def test_what_the_wheel_is_made_of_is_copied() -> None:
    """hatchling reads the version and the readme, and packs one package."""
    (build,) = files.stages()[:-1]
    taken = {word.removeprefix("./") for each in build if each.name == "COPY" for word in each.words}
    assert {"pyproject.toml", "README.md", "constraints.txt", "framework"} <= taken
    (install,) = [each.text for each in build if each.name == "RUN"]
    (pins,) = [each.text for each in build if each.name == "ENV"]
    assert "PIP_CONSTRAINT=/src/constraints.txt" == pins, "an option would not reach what builds the wheel"
    for wanted in tomllib.loads((files.ROOT / "pyproject.toml").read_text())["build-system"]["requires"]:
        assert f"\n{re.split('[^a-z]', wanted)[0]}==" in (files.ROOT / "constraints.txt").read_text()
    assert '".[observe]"' in install, "probes and metrics need it"


def test_the_application_is_process_1_and_gets_the_signal() -> None:
    """A shell as process 1 swallows SIGTERM, and nothing drains."""
    for name in ("CMD", "HEALTHCHECK"):
        assert files.of_image(name).command is not None, f"{name} is written as a list"
    command = files.of_image("CMD").command or []
    assert ["framework-app", "run"] == command[:2]
    assert "SIGTERM" == files.of_image("STOPSIGNAL").text
    assert not [each for each in files.stages()[-1] if each.name == "ENTRYPOINT"]


def test_it_does_not_run_as_root_and_root_owns_what_it_runs() -> None:
    user, _, group = files.of_image("USER").text.partition(":")
    assert int(user) > 0 < int(group), "a number, so that runAsNonRoot can be checked"
    names = [each.name for each in files.stages()[-1]]
    assert "COPY" not in names[names.index("USER") :]
    assert not [each for each in files.instructions() if "--chown" in each.text]


@pytest.mark.parametrize(
    "each",
    [each for each in files.stages()[-1] if "framework-app" in each.text and "[" in each.text],
    ids=lambda each: each.name,
)
def test_its_commands_are_ours(each: files.Instruction) -> None:
    assert each.command is not None
    assert words.mistake(shlex.join(each.command)) is None


def test_the_page_s_container_has_the_name_by_which_it_is_stopped_the_time_that_takes_and_brokers(
    tmp_path: Path,
) -> None:
    page = re.sub(r"\\\n\s*", "", (files.ROOT / "docs/deploy/container.md").read_text())
    run, _, stop = (shlex.split(line) for line in re.findall(r"^docker (?:run|exec|stop) .*", page, re.MULTILINE))
    said = dict(pairwise(run))
    variables = dict(word.split("=", 1) for option, word in pairwise(run) if option == "--env")
    settings = files.settings_of((files.DEPLOY / "app" / files.SETTINGS).read_text(), tmp_path, variables)

    assert said["--name"] == stop[-1]
    assert settings.app.killed_after == int(said["--stop-timeout"]) * 1000
    assert int(said["--stop-timeout"]) > files.stop_s(settings)
    assert (
        settings.cluster.name_servers
        != files.settings_of((files.DEPLOY / "app" / files.SETTINGS).read_text(), tmp_path).cluster.name_servers
    ), "there is none of that name outside of Compose"


def test_its_port_is_that_of_the_listener(tmp_path: Path) -> None:
    settings = files.settings_of((files.DEPLOY / "app" / files.SETTINGS).read_text(), tmp_path)

    assert settings.observe.listen == f"0.0.0.0:{files.of_image('EXPOSE').text}"


def test_the_image_s_command_handles_a_message_and_drains(
    box: str, tmp_path: Path, tmp: Path, started: Callable[[Process], Process]
) -> None:
    """With the handlers and the settings that the image has, at the paths to which it copies them."""
    app, etc = tmp_path / "app", tmp_path / "etc"
    for folder in (app, etc):
        folder.mkdir()
    for each in files.stages()[-1]:
        match each.name, each.words:
            case "COPY", [source, target] if not source.startswith("--"):
                there = Path(target) if not target.endswith("/") else Path(target) / Path(source).name
                shutil.copy(files.ROOT / source, {"/app": app, "/etc/order-desk": etc}[str(there.parent)] / there.name)
    command, port = files.of_image("CMD").command, free_port()
    assert command is not None
    image = started(
        Process(
            command, app, mounts={"/app": app, "/etc/order-desk": etc, "/tmp": tmp},
            environment={
                **files.image_environment(), "FRAMEWORK_APP__CLUSTER__NAME_SERVERS": f'["{box}"]',
                "FRAMEWORK_APP__OBSERVE__LISTEN": f"127.0.0.1:{port}",
            },
        )
    )  # fmt: skip

    wait_until_ready(image, port)
    send(box, {"number": 17})
    wait_until(lambda: "billed 17" in image.said(), "a message")
    health = files.of_image("HEALTHCHECK").command
    assert health is not None
    assert 0 == image.run(*health[1:])[0]
    assert 0 == image.stop()
    assert "drained: handled=1 " in image.said()
