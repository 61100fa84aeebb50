"""`make screenshots`: every view at 1440 and 390 px, light and dark, of a shop with something to look at."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cli.dashboard.browser import browser
from tests.cli.dashboard.scene import scene

VIEWS = {
    "overview": "/",
    "group": "/group?group=billing",
    "queues": "/queues?group=billing",
    "letters": "/dead-letters?group=billing",
    "search": "/messages?by=key&q=order-5&topic=orders",
    "tail": "/tail?topic=orders",
    "topics": "/topics",
    "topic": "/topic?topic=orders",
    "brokers": "/brokers",
    "applications": "/applications",
    "doctor": "/doctor",
    "plan-pause": "/plan/pause?group=billing",
    "plan-resize": "/plan/resize?group=billing&to=4",
    "plan-drop": "/plan/drop?group=billing&reason=KeyError",
    "jobs": "/jobs",
    "plan-reset": "/plan/reset?group=billing&to=earliest",
    "plan-replay": "/plan/replay?group=billing",
    "retries": "/group?group=shipping&retries=yes",
    "error": "/group?group=nobody",
}
"""Those whose addresses are known beforehand."""
WIDTHS = (1440, 390)
LOOKS = 5


def main(into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        scene(Path(folder), "--allow-writes") as shop,
        browser(Path(folder)) as opened,
    ):
        page = opened.new_page()
        page.goto(shop.login)
        page.get_by_role("heading", name="Overview").wait_for()
        page.wait_for_timeout(LOOKS * 5_000)  # figures over time need some
        for name, path in {**VIEWS, **found_views(page, shop.url)}.items():
            _shoot(page, into, name, f"{shop.url.rstrip('/')}{path}")


def found_views(page: Any, url: str) -> dict[str, str]:
    """Those whose addresses name a message: found by their links, as people find them."""
    root = url.rstrip("/")
    page.goto(f"{root}{VIEWS['letters']}")
    found: dict[str, str] = {}

    def follow(link: Any, name: str, path: str) -> None:
        link.click()
        page.wait_for_url(f"**/{path}?*")
        found[name] = page.url

    follow(page.locator("tbody th a[href^='/dead-letter?']").first, "letter", "dead-letter")
    follow(page.get_by_role("link", name="Its whole life"), "message", "message")
    follow(page.get_by_role("link", name="As it is stored"), "stored", "stored")
    return {name: each.removeprefix(root) for name, each in found.items()}


def _shoot(page: Any, into: Path, name: str, url: str) -> None:
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900 if width > 1000 else 844})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.goto(url)
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if wide > 0:
                sys.stderr.write(f"{name} at {width} px is {wide} px too wide\n")
            page.screenshot(path=str(into / f"{name}-{width}-{scheme}.png"), full_page=True)
    page.goto("about:blank")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
