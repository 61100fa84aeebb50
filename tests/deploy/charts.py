"""The chart as helm renders it. `make helm-check` holds it against the files in `rendered/`; WRITE=1 makes those anew.

helm is built once, which takes minutes; other tests read what is in `rendered/`. Each file there begins with a digest
of what it was rendered from, so that a chart that was changed and not rendered again is noticed without helm.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.deploy.files import DEPLOY, ROOT

CHART = DEPLOY / "helm" / "order-desk"
RENDERED = Path(__file__).with_name("rendered")
RELEASE = "order-desk"
KUBERNETES_VERSION = "1.30.0"
VARIANTS = ("statefulset", "deployment")
"""The first one has the chart's defaults, the other one a file of values."""
REFUSED = (
    "settings.app.drain=5s",
    "settings.observe.listen=0.0.0.0:1",
    "workload=DaemonSet",
    "autoscaling.minReplicas=0",
    "leavingSeconds=10",
    "drainSecond=10",
    "podDisruptionBudget.maxUnavailable=null",
    "podDisruptionBudget.maxUnavailable=some",
    "networkPolicy.brokerPorts=null",
    "settings=null",
    "podAnnotations.number=1",
)
"""What the chart's schema has no place for. null takes a default away: brokerPorts without any would be every port."""
WRONG = (
    "autoscaling.enabled=true",
    "autoscaling.enabled=true,autoscaling.group=billing,autoscaling.minReplicas=9",
    "autoscaling.enabled=true,autoscaling.group=billing,autoscaling.maxReplicas=3",
)
"""What the schema cannot know, and a template refuses."""


def values_of(variant: str) -> Path | None:
    path = RENDERED / f"{variant}.values.yaml"
    return path if path.exists() else None


def digest(variant: str) -> str:
    """Of everything that the rendering of this variant comes from."""
    found = hashlib.sha256()
    values = values_of(variant)
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()) + ([values] if values else []):
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def rendering(variant: str) -> Path:
    return RENDERED / f"{variant}.yaml"


def head(variant: str) -> str:
    return f"# helm template, of {digest(variant)}; made by `make helm-check WRITE=1`\n"


def _rendered(helm: str, variant: str) -> str:
    values = values_of(variant)
    chosen = ["--values", str(values)] if values else []
    command = [helm, "template", RELEASE, str(CHART), "--kube-version", KUBERNETES_VERSION, *chosen]
    return head(variant) + subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _complaints(helm: str, *, write: bool) -> Iterator[str]:
    linted = subprocess.run([helm, "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    if linted.returncode:
        yield linted.stdout
    for variant in VARIANTS:
        text, path = _rendered(helm, variant), rendering(variant)
        if write:
            path.write_text(text)
        elif not path.exists() or text != path.read_text():
            yield f"{path.relative_to(ROOT)} is not what helm makes of the chart: make helm-check WRITE=1"
    for each in (*REFUSED, *WRONG):
        command = [helm, "template", RELEASE, str(CHART), "--kube-version", KUBERNETES_VERSION, "--set", each]
        if not subprocess.run(command, capture_output=True, check=False).returncode:
            yield f"helm takes --set {each}"


def main(helm: str, *options: str) -> int:
    complaints = list(_complaints(helm, write="--write" in options))
    said = f"helm: {len(VARIANTS)} renderings are right, {len(REFUSED + WRONG)} wrong values are refused"
    print("\n".join(complaints) or said)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
