"""What an attacker would choose, in messages, addresses and control sockets, read as a browser reads it."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from framework import Message
from framework.admin.replays import _commit
from framework.cli.dashboard.exchanges import address as address_of
from framework.cli.dashboard.serving import Dashboard, DashboardOptions
from framework.client.options import ClusterOptions
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from tests.cli.dashboard.desks import TOKEN, Visitor, look, text, visitor
from tests.cli.live import played
from tests.reading.threads import ThreadBox, thread_box

ATTACKS = {
    "ends the script": "</script><script>alert(1)</script>",
    "leaves the attribute": "\" autofocus onfocus=alert(1) x='",
    "leaves the quotes": "' onmouseover=alert(1) '",
    "a template": "{{ config }}{% raw %}{{ ''.__class__ }}",
    "a comment": "<!-- ]]> -->",
    "a link": "javascript:alert(1)",
    "was escaped before": "&lt;img src=x onerror=alert(1)&gt;",
    "animated": "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "hides the page": "<style>*{display:none}</style>",
    "goes elsewhere": "<meta http-equiv=refresh content='0;url=//evil.example'><base href=//evil.example>",
    "a form": "</form><form action=//evil.example><button>Pause</button>",
    "a frame": "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "control signs": "\x1b[2J\x9b31m\x85\x7f",
    "turned around": "\u2066\u202eabc\u2069\u200f\u2028\u2029",
    "invisible": "\U000e0041\U000e0042\u200b\ufeff",
    "a header": "a\r\nset-cookie: x=y\r\n\r\n<script>",
    "long": "x" * 100_000,
    "a formula": "=cmd|' /C calc'!A0",
    "half a sign": "a\ud800b",
    "nothing": "\x00\x01\x02",
}
BANNED = frozenset({"img", "style", "base", "iframe", "object", "embed", "animate", "textarea", "applet", "link"})
OURS = frozenset({("link", "/static/dashboard.css"), ("script", "/static/dashboard.js")})


class Foreign(HTMLParser):
    """Elements and attributes that none of our templates has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[Any] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        facts = dict(attributes)
        if (tag, facts.get("href") or facts.get("src")) in OURS:
            return
        if tag in BANNED or (tag == "script" and "nonce" not in facts) or "http-equiv" in facts:
            self.found.append((tag, facts))
        for name, value in attributes:
            leads_away = name in {"href", "action", "src"} and re.match("/(?!/)|[#?]", value or "") is None
            if name.startswith("on") or name in {"autofocus", "srcdoc", "style"} or leads_away:
                self.found.append((tag, name, value))


def faults(page: str) -> list[Any]:
    signs = [sign for sign in page if not sign.isprintable() and sign not in "\n\t"]
    return [*Foreign(page).found, *signs[:3]]


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    with thread_box() as box:
        sendable = [each for name, each in ATTACKS.items() if name not in {"half a sign", "nothing"}]
        for each in sendable:
            keys, properties = (each.replace(" ", "_")[:3000],), {"hostile": each[:3000]}
            message = Message("orders", each.encode(), keys=keys, tags=f"t{each[:200]}t", properties=properties)
            box.send("orders", [message], queue=0)
        with visitor(box.address).site.desk.admin() as admin:  # a group is one once it has committed
            admin.route("orders")
            _commit(admin, "billing", MessageQueue("orders", "broker-a", 0), 0)
        yield box


def addresses(said: str, count: int) -> list[str]:
    q = quote(said[:900].encode("utf-8", "surrogatepass"))
    searches = [f"/messages?by={by}&q={q}&topic=orders" for by in ("key", "id", "time", "place")]
    plans = [
        f"/plan/resize?group=billing&to={q}", f"/plan/reset?group=billing&to={q}&topic={q}",
        f"/plan/replay?group=billing&reason={q}&key={q}&since={q}", f"/plan/drop?group=billing&limit={q}",
        f"/plan/decide?group=billing&what={q}",
        f"/plan/decide?group=billing&what=extend&topic={q}&broker={q}&queue={q}&offset={q}&by={q}&worker={q}",
    ]  # fmt: skip
    return [
        "/", "/group?group=billing", "/applications", f"/group?group={q}", f"/stored?place={q}", f"/tail?topic={q}",
        f"/topics?q={q}", f"/topic?topic={q}", f"/doctor?group={q}", f"/job?id={q}", f"/message?id={q}&topic={q}",
        f"/dead-letters?group=billing&reason={q}&key={q}&since={q}&from={q}", f"/dead-letter?group=billing&place={q}",
        f"/queues?group=billing&topic={q}", f"/?done={q}", f"/{q}", "/tail?topic=orders",
        "/messages?by=time&q=earliest&topic=orders", *searches, *plans,
        *(f"/stored?place=orders@broker-a:0:{number}" for number in range(count)),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_text_wherever_it_comes_from(box: ThreadBox, tmp_path: Path, name: str) -> None:
    """As a parameter of each address, as a reason of an application, and (all of them) in messages that are shown."""
    said = ATTACKS[name]
    picture = played.picture(played.group(), name_servers=(box.address,), not_ready=(said,), not_live=(said,))
    told = {"snapshot": played.worker(picture), "stacks": {"handlers": [], "blocked": said}}
    with played.listening(tmp_path / "control", played.Played(**told)):
        who = visitor(box.address, writes=True, sockets=lambda: [tmp_path / "control"])
        who.open()
        look(who)
        for address in addresses(said, len(ATTACKS) - 2 if name == "a frame" else 0):
            answer = who.ask("GET", address)
            assert answer.status in {200, 303, 400, 404, 502}, address
            assert [] == faults(text(answer)), address
            assert "set-cookie" not in answer.headers
            assert answer.headers.get("location", "/").isprintable()
            assert answer.headers.get("location", "/").startswith("/")


def test_a_body_that_is_shown_is_text_whatever_it_holds(box: ThreadBox) -> None:
    who = visitor(box.address)
    who.open()
    look(who)
    for number in range(len(ATTACKS) - 2):
        answer = who.post("/stored", None, place=f"orders@broker-a:0:{number}")
        assert 200 == answer.status
        assert [] == faults(text(answer))


def test_what_a_browser_would_take_for_more_would_be_found() -> None:
    for said in ("<img src=x>", "<p onclick=x>", "<a href=javascript:x>", "<script>", "\u202e", "<form action=//evil>"):
        assert [] != faults(said), said


def test_a_name_with_half_a_sign_still_makes_an_address() -> None:
    """A member may call a topic so, in the JSON of its heartbeat; its group's page is made all the same."""
    assert "/topic?topic=a%3F" == address_of("/topic", topic="a\ud800")


HOSTS = {
    "evil.example": 421, "127.0.0.1.nip.io": 421, "localhost.evil.example": 421, "localhost@evil.example": 421,
    "evil.example#localhost": 421, "127.1": 421, "0.0.0.0": 421, "10.0.0.1": 421, "localhost.": 421, "": 421,
    "[::ffff:127.0.0.1]": 421, "127.0.0.1\\evil.example": 421, "localhost": 401, "LOCALHOST:1": 401, "[::1]": 401,
    "127.0.0.1": 401,
}  # fmt: skip


def test_no_name_of_somebody_elses_reaches_it(box: ThreadBox) -> None:
    """DNS rebinding: a page of the attacker's own name, which leads here. The token is not even asked for."""

    def status(port: int, *head: str) -> int:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall("\r\n".join((*head, "Connection: close", "", "")).encode("latin-1"))
            return int(connection.makefile("rb").readline().split()[1])

    async def story() -> dict[str, int]:
        options = DashboardOptions(port=0, token=TOKEN)
        opened = await Dashboard(real_world(), options, ClusterOptions(name_servers=(box.address,)), list).open()
        port = int(opened.url.rstrip("/").rpartition(":")[2])
        heads: dict[str, tuple[str, ...]] = {host: ("GET / HTTP/1.1", f"Host: {host}") for host in HOSTS}
        heads |= {
            "two hosts": ("GET / HTTP/1.1", "Host: localhost", "Host: evil.example"),
            "an absolute address": ("GET http://evil.example/ HTTP/1.1", "Host: localhost"),
            "no host": ("GET / HTTP/1.1",),
        }
        try:
            return {name: await asyncio.to_thread(status, port, *head) for name, head in heads.items()}
        finally:
            await opened.close()

    assert HOSTS | {"two hosts": 400, "an absolute address": 400, "no host": 400} == asyncio.run(story())


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:1", "http://localhost:9465", "http://127.0.0.1:9465.evil.example", "null", "file://"]
)
def test_another_port_or_name_of_this_machine_is_another_origin(box: ThreadBox, origin: str) -> None:
    """Whatever else listens here may serve hostile pages; a cookie is sent to all ports alike."""
    who: Visitor = visitor(box.address, writes=True)
    who.open()
    look(who)

    assert 403 == who.post("/act/drop", {"origin": origin}, group="billing", typed="billing").status
    assert 403 == who.post("/login", {"origin": origin}, token=TOKEN).status
