"""What people see and press in the dashboard, driven in Chromium: by mouse and by keys, at two widths, light and dark.

Each kind of cluster has its own shop: see `test_browser.py`, and `tests/interop/test_dashboard.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from framework import Message, SyncProducer
from tests.cli.dashboard import browser
from tests.cli.dashboard.scene import Scene, scene
from tests.cli.dashboard.screenshots import VIEWS, WIDTHS, found_views

UNTIL_S = 120.0
"""For what the application or the cluster has to do first."""


class Shop:
    """A shop that runs, and a page of it in a browser that has shown its token."""

    def __init__(self, scene: Scene, page: Any) -> None:
        self.scene, self.page = scene, page
        self.alerts: list[str] = []
        self.errors: list[str] = []
        page.on("dialog", self._alerted)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _alerted(self, dialog: Any) -> None:
        self.alerts.append(dialog.message)
        dialog.dismiss()

    def go(self, path: str) -> Any:
        self.page.goto(f"{self.scene.url.rstrip('/')}{path}")
        main = self.page.locator("main")
        main.wait_for()
        return main

    def go_until(self, path: str, text: str) -> Any:
        """The page, once it has the text: the cluster tells the dashboard every few seconds."""
        from playwright.sync_api import TimeoutError as NotYet

        main = self.go(path)
        for _ in range(int(UNTIL_S / 5)):
            try:
                main.filter(has_text=re.compile(text)).wait_for(timeout=5_000)
            except NotYet:
                main = self.go(path)
            else:
                return main
        raise AssertionError(f"{path} does not say {text!r}: {main.inner_text()}")

    def press(self, button: str, group: str) -> None:
        """The button under a plan; where the group's name has to be typed, it is."""
        self.page.get_by_role("heading", name="What it would do").wait_for()
        typed = self.page.get_by_label(re.compile("^Type "))
        if typed.count():
            typed.fill(group)
        self.page.locator("form.act").get_by_role("button", name=button, exact=True).click()

    def act(self, path: str, button: str, group: str) -> None:
        """Go to the plan, press its button, and be told that it was done."""
        self.go(path)
        self.press(button, group)
        self.page.get_by_role("status").filter(has_text="Done").wait_for()

    def handler(self, key: str) -> None:
        """The group's page, with what can be done with the handler of this key's message."""
        self.go_until("/group?group=billing", f"key {key}")
        shown = self.handling(key)
        shown.get_by_text("Stack and what can be done").click()
        shown.locator("pre").filter(has_text="bill(").wait_for()

    def handling(self, key: str) -> Any:
        """The handler of this key's message, or one of two: its queue may have moved meanwhile."""
        return self.page.locator(".handlers > li").filter(has_text=f"key {key}").first

    def decide(self, key: str, link: str, button: str) -> None:
        self.handler(key)
        self.handling(key).get_by_role("link", name=link).click()
        self.press(button, "billing")
        self.page.get_by_role("status").filter(has_text="Done").wait_for()


@contextmanager
def open_shop(folder: Path, name_server: str | None = None) -> Iterator[Shop]:
    browser.needed()
    with ExitStack() as stack:
        running = stack.enter_context(scene(folder, "--allow-writes", name_server=name_server))
        page = stack.enter_context(browser.browser(folder)).new_page()
        shop = Shop(running, page)
        page.goto(running.login)
        page.get_by_role("heading", name="Overview").wait_for()
        yield shop


def send_slow(shop: Shop, key: str) -> None:
    """A message whose handler takes an hour. On a thread: this one's loop is the browser's."""

    def send() -> None:
        with SyncProducer(name_servers=[shop.scene.name_server]) as producer:
            producer.send(Message("orders", json.dumps({"note": "slow"}).encode(), keys=(key,)))

    with ThreadPoolExecutor(1) as threads:
        threads.submit(send).result()


def serious(page: Any) -> list[str]:
    """What axe says of the page as it is shown now."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in {"serious", "critical"}]


class Drives:
    """The tests; whoever inherits them has a fixture `shop`, one for all of them."""

    @pytest.fixture(autouse=True)
    def as_it_was(self, shop: Shop) -> None:
        shop.page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        shop.page.emulate_media(color_scheme="light")

    def test_each_view_is_readable_fits_and_runs_nothing_of_what_others_chose(self, shop: Shop) -> None:
        """axe finds nothing serious in either scheme; nothing is wider than a phone; no hostile text is a script."""
        faults: list[str] = []
        for name, path in {**VIEWS, **found_views(shop.page, shop.scene.url)}.items():
            for scheme in ("light", "dark"):
                shop.page.emulate_media(color_scheme=scheme)
                shop.go(path)
                faults += [f"{name} {scheme}: {each}" for each in serious(shop.page)]
            for width in WIDTHS:
                shop.page.set_viewport_size({"width": width, "height": 900})
                root = "document.documentElement"
                wide = shop.page.evaluate(f"{root}.scrollWidth - {root}.clientWidth")
                faults += [f"{name} at {width} px is {wide} px too wide"] if wide > 0 else []

        assert [] == faults
        assert ([], []) == (shop.alerts, shop.errors)

    def test_what_nobody_can_read_would_be_found(self, shop: Shop) -> None:
        """The check itself: text almost as light as its ground, and a field without a name."""
        shop.go("/")
        assert [] == serious(shop.page)
        shop.page.evaluate(
            "document.querySelector('main').insertAdjacentHTML('beforeend', '<input id=\"nameless\">');"
            "document.querySelector('h1').style.color = 'rgb(230, 230, 230)';"
        )
        assert {"label", "color-contrast"} == {each.partition(":")[0] for each in serious(shop.page)}

    def test_keys_alone_open_pages_choose_rows_and_list_themselves(self, shop: Shop) -> None:
        page = shop.page
        shop.go("/")
        page.keyboard.press("g")
        page.keyboard.press("t")
        page.wait_for_url(re.compile("/(topics|tail)"))
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="hidden")
        shop.go("/dead-letters?group=shipping")
        page.keyboard.press("/")
        assert "INPUT" == page.evaluate("document.activeElement.tagName")
        shop.go("/")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/group?group=*")

    def test_a_group_is_paused_resized_and_resumed_each_after_its_plan(self, shop: Shop) -> None:
        page = shop.page
        shop.go("/group?group=tracking")
        page.get_by_role("link", name="Pause…").click()
        page.get_by_label("For", exact=True).fill("30m")
        page.get_by_label(re.compile("^Reason")).fill("the <b>bank</b> is down")
        page.get_by_role("button", name="Plan", exact=True).click()
        page.get_by_text("No handler starts for 30m").wait_for()
        shop.press("Pause", "tracking")
        page.get_by_role("status").filter(has_text="Done").wait_for()
        shop.go_until("/group?group=tracking", "paused by dashboard session .*: the <b>bank</b> is down")
        shop.go_until("/group?group=tracking", "Resume…")
        page.get_by_role("link", name="Resume…").click()
        shop.press("Resume", "tracking")
        shop.go_until("/group?group=tracking", "Pause…")
        shop.go("/plan/resize?group=tracking")
        page.get_by_label("Handlers at once in each process").fill("3")
        page.get_by_role("button", name="Plan", exact=True).click()
        page.get_by_text("to 3 handlers at once").wait_for()
        shop.press("Resize", "tracking")
        page.get_by_role("status").filter(has_text="Done").wait_for()
        shop.go_until("/plan/resize?group=tracking&to=4", "From 3 to 4 handlers at once")

    def test_a_reset_asks_for_the_groups_name_and_does_nothing_without_it(self, shop: Shop) -> None:
        page = shop.page
        shop.go_until("/plan/reset?group=tracking&to=earliest", "20")
        page.get_by_label("Type tracking").fill("trackin")
        page.get_by_role("button", name="Reset", exact=True).click()
        page.get_by_text("nothing was changed").wait_for()
        shop.act("/plan/reset?group=tracking&to=earliest", "Reset", "tracking")

    def test_dead_letters_are_replayed_by_a_job_and_passed_over(self, shop: Shop) -> None:
        page = shop.page
        shop.go_until("/plan/replay?group=shipping&limit=2&rate=1000", "2 dead letters go")
        shop.press("Replay", "shipping")
        page.wait_for_url("**/job?id=*")
        page.locator("main .state").filter(has_text="done").wait_for()
        assert "2 of 2" in page.locator("main").inner_text()
        shop.go_until("/plan/drop?group=shipping", "[1-9][0-9]* dead letters are passed over")
        shop.press("Pass over", "shipping")
        page.get_by_role("status").filter(has_text="Done").wait_for()

    def test_one_dead_letter_is_passed_over_from_its_page(self, shop: Shop) -> None:
        page = shop.page
        shop.go_until("/dead-letters?group=billing", "KeyError")
        letter = page.locator("tbody th a[href^='/dead-letter?']").first
        message = letter.inner_text()
        letter.click()
        page.get_by_role("link", name="Pass this one over…").click()
        page.get_by_text("1 dead letter is passed over").wait_for()
        shop.press("Pass over", "billing")
        page.wait_for_url("**/job?id=*")
        page.locator("main .state").filter(has_text="done").wait_for()
        assert message not in shop.go("/dead-letters?group=billing").inner_text()
        assert message in shop.go("/dead-letters?group=billing&all=yes").inner_text()

    def test_a_long_replay_is_stopped(self, shop: Shop) -> None:
        page = shop.page
        shop.go_until("/plan/replay?group=billing&rate=1&to_retry=yes", "[1-9][0-9]* dead letters go")
        shop.press("Replay", "billing")
        page.wait_for_url("**/job?id=*")
        page.get_by_role("button", name="Stop", exact=True).click()
        page.locator("main .state").filter(has_text="stopped").wait_for()

    def test_of_a_stuck_message_is_decided_on_its_groups_page(self, shop: Shop) -> None:
        shop.decide("slow-1", "Let it run on…", "Let it run on")
        send_slow(shop, "slow-2")
        shop.decide("slow-2", "To the dead letters…", "Send it to the dead letters")
        shop.go_until("/dead-letters?group=billing", "slow-2")
        send_slow(shop, "slow-3")
        shop.decide("slow-3", "Send back…", "Send it back for a retry")
        shop.go_until("/dead-letters?group=billing", "slow-3")  # the group has no retries

    def test_a_page_that_is_not_renewed_says_so_until_it_is(self, shop: Shop) -> None:
        page = shop.page
        shop.go("/group?group=billing")
        page.route("**/group?*", lambda route: route.abort())
        page.get_by_role("alert").filter(has_text="the dashboard does not answer").wait_for()
        page.unroute("**/group?*")
        page.locator("#lost").wait_for(state="hidden")

    def test_whoever_shows_the_token_anew_is_back_at_the_page(self, shop: Shop) -> None:
        """A session that ends while a page is open asks for the token there."""
        page = shop.page
        shop.go("/queues?group=billing")
        page.context.clear_cookies()
        page.get_by_label("Token").fill(shop.scene.token)
        page.get_by_role("button", name="Open", exact=True).click()
        page.get_by_role("heading", name="billing: queues").wait_for()
        page.get_by_role("button", name="Leave").click()
        page.get_by_label("Token").wait_for()
        page.goto(shop.scene.login)
        page.get_by_role("heading", name="Overview").wait_for()
        assert shop.scene.token not in page.url

    def test_a_body_is_shown_when_somebody_asks(self, shop: Shop) -> None:
        shop.go("/dead-letters?group=billing")
        shop.page.locator("tbody th a[href^='/dead-letter?']").first.click()
        assert "no card" not in shop.page.locator("main pre").all_inner_texts()
        shop.page.get_by_role("button", name=re.compile("^Show")).first.click()
        shop.page.get_by_text('"note"').first.wait_for()
        assert [] == shop.alerts
