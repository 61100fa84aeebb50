"""Pages of a cluster with hostile messages, and who may see them and do what."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework import Message
from framework.cli.dashboard import acts, words
from framework.cli.dashboard.exchanges import address as address_of
from framework.cli.dashboard.pages import HERE
from framework.cli.dashboard.site import PAGES
from framework.errors import ConfigurationError
from framework.model.queue import MessageQueue
from framework.wire import exchanges
from tests.cli.dashboard.desks import HOST, NOW_MS, TOKEN, Visitor, look, text, visitor
from tests.cli.live import played
from tests.reading.threads import ThreadBox, texts, thread_box

ATTACK = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}</textarea>\u202ejavascript:alert(3)'
PLACE = "%DLQ%billing@broker-a:0:0"


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    with thread_box() as box:
        body = f"{ATTACK}\x00\x1b[31m".encode()
        properties = {"hostile": ATTACK, "other": "<b>"}
        message = Message("orders", body, keys=("<svg/onload=alert(5)>",), tags="<i>", properties=properties)
        box.send("orders", [message], queue=0)
        last_words = {
            "DEAD_LETTER_REASON": ATTACK, "DEAD_LETTER_ERROR": "<u>KeyError", "DEAD_LETTER_TIME": str(NOW_MS - 5000),
            "DEAD_LETTER_ATTEMPTS": "3", "DEAD_LETTER_ORIGIN": "orders@broker-a:0:0",
        }  # fmt: skip
        letter = Message("%DLQ%billing", body, keys=("<svg/onload=alert(5)>",), properties=last_words)
        box.send("%DLQ%billing", [letter], queue=0)
        _known(box)
        yield box


def _known(box: ThreadBox) -> None:
    """A group is one once it has committed."""
    from framework.admin.replays import _commit

    with visitor(box.address).site.desk.admin() as admin:
        queue = MessageQueue("orders", "broker-a", 0)
        admin.route("orders")
        _commit(admin, "billing", queue, 0)
        assert admin.ask_master(queue, exchanges.stored_offset("billing", queue)) == 0


@pytest.fixture
def who(box: ThreadBox) -> Visitor:
    found = visitor(box.address, writes=True)
    assert 303 == found.open().status
    look(found)
    return found


ADDRESSES = (
    "/", "/group?group=billing", "/group?group=billing&retries=yes", "/queues?group=billing",
    "/dead-letters?group=billing", "/dead-letters?group=billing&reason=%3Cu%3E&all=yes&key=%3Csvg/onload=alert(5)%3E",
    f"/dead-letter?group=billing&place={PLACE}", "/messages", "/messages?by=time&q=earliest&topic=orders",
    "/messages?by=key&q=%3Csvg/onload=alert(5)%3E&topic=orders", "/stored?place=orders@broker-a:0:0",
    "/tail?topic=orders", "/topics", "/topics?system=yes", "/topic?topic=orders", "/brokers", "/applications",
    "/doctor?group=billing", "/jobs", "/plan/pause?group=billing", "/plan/resume?group=billing",
    "/plan/resize?group=billing&to=4", "/plan/reset?group=billing&to=latest", "/plan/replay?group=billing",
    "/plan/drop?group=billing",
    "/plan/decide?group=billing&what=bury&topic=orders&broker=%3Cscript%3E&queue=0&offset=0",
)  # fmt: skip


def _is_harmless(page: str) -> bool:
    """No element, attribute or template of theirs has come to be; a page's own script has a nonce."""
    bad = re.search(r"<(img|svg/|u>|i>|script(?! (src|nonce)=))|onerror=(?![^<]*&gt;)|49\b.*textarea", page)
    return bad is None and "\u202e" not in page and "\x00" not in page and "\x1b" not in page


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_others_chose_is_text_on_every_page(who: Visitor, address: str) -> None:
    page = who.get(address)
    assert _is_harmless(page), page
    assert "alert(2)" not in page or "&lt;script&gt;alert(2)" in page


@pytest.mark.parametrize("address", ["/tail?topic=orders", "/messages?by=key&q=%3Csvg/onload=alert(5)%3E&topic=orders"])
def test_a_list_of_messages_has_their_keys_and_the_day(who: Visitor, address: str) -> None:
    """A template asks a row for `keys`, and a dict has a method of that name."""
    page = who.get(address)
    assert '<td data-label="Keys">&lt;svg/onload=alert(5)&gt;</td>' in page
    assert re.search(r">20\d\d-\d\d-\d\d \d\d:\d\d:\d\d</time>", page)


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_page_shows_how_python_writes_a_thing(who: Visitor, address: str) -> None:
    assert not re.search(r"&lt;(built-in|bound|function|framework)|object at 0x", who.get(address))


def test_a_time_that_a_producer_made_up_spoils_no_page() -> None:
    assert f"{2**62} ms" == words.instant(2**62) == words.stamp(2**62)
    assert ("2026-11-22 10:00:00", "10:00:00") == (words.stamp(1_795_341_600_250), words.clock(1_795_341_600_250))


@pytest.mark.parametrize("form", ["/stored place=orders@broker-a:0:0", f"/dead-letter group=billing place={PLACE}"])
def test_a_body_is_shown_to_a_form_alone_as_text_and_is_audited(who: Visitor, form: str) -> None:
    path, *pairs = form.split()
    fields = dict(each.split("=", 1) for each in pairs)
    hidden = who.get(f"{path}?{'&'.join(pairs)}&with_body=yes")
    assert "alert(2)" not in hidden.split('id="properties-title"')[0].split('id="body-title"')[1]

    shown = who.post(path, None, **fields)
    assert 200 == shown.status, text(shown)
    assert (
        "&lt;img src=x onerror=alert(1)&gt;&lt;script&gt;alert(2)&lt;/script&gt;{{7*7}}&lt;/textarea&gt;?java"
        in text(shown)
    )
    assert _is_harmless(text(shown))
    assert [("dashboard body shown", fields["place"])] == [
        (what, facts["place"]) for what, facts in who.audits if what != "dashboard opened"
    ]


@pytest.mark.parametrize(
    "address", [*PAGES, *acts.PLANS, "/static/dashboard.css", "/static/dashboard.js", "/static/../guard.py"]
)
def test_without_the_token_nothing_is_seen(box: ThreadBox, address: str) -> None:
    stranger = visitor(box.address)
    answer = stranger.ask("GET", address)
    assert 401 == answer.status
    assert box.address not in text(answer)
    assert 401 == stranger.ask("GET", address, headers={"cookie": "framework_app_9465=guess"}).status
    assert 401 == stranger.open("guess" * 9).status
    assert not stranger.cookie


def test_whoever_guesses_tokens_fills_no_log_and_keeps_nobody_out(box: ThreadBox) -> None:
    now_ms = NOW_MS
    who = visitor(box.address, now_ms=lambda: now_ms)
    for _ in range(1000):
        assert 401 == who.open("guess" * 9).status
    assert 10 == len(who.audits)
    assert "no more is said" in str(who.audits[-1][1]["reason"])
    assert 303 == who.open().status
    now_ms += 60_000
    who.open("guess" * 9)
    assert "wrong token" == who.audits[-1][1]["reason"]


@pytest.mark.parametrize(
    ("wanted", "led_to"),
    [
        ("/group?group=a%26b&retries=yes", "/group?group=a%26b&retries=yes"),
        ("/plan/pause?group=billing", "/plan/pause?group=billing"),
        ("/", "/"),
        ("/nowhere?group=billing", "/"),
        ("/act/pause?group=billing", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example/group?group=x", "/"),
        ("/group?group=%0d%0aset-cookie:x", "/group?group=%0D%0Aset-cookie%3Ax"),
        ('/group?path=1&"><script>alert(2)</script>=1', None),
    ],
)
def test_the_token_leads_on_to_the_page_that_was_asked_for(box: ThreadBox, wanted: str, led_to: str | None) -> None:
    """A link from a chat comes without the cookie. It leads to our own pages alone."""
    who = visitor(box.address)
    look(who)
    page = text(who.ask("GET", wanted))
    assert _is_harmless(page)
    hidden = re.search(r'name="to" value="([^"]*)"', page)
    assert hidden is not None
    for to in {wanted, html.unescape(hidden[1])}:
        location = who.post("/login", token=TOKEN, to=to).headers["location"]
        assert location.isprintable()
        assert led_to in {None, location}
        assert re.match("/(?![/\\\\])", location)


def test_the_cookie_is_kept_from_scripts_and_other_sites_and_ends(box: ThreadBox) -> None:
    now_ms = NOW_MS
    who = visitor(box.address, now_ms=lambda: now_ms)
    look(who)
    (cookie,) = who.open().cookies
    assert "; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200" in cookie
    assert 200 == who.ask("GET", "/jobs").status
    assert 303 == who.post("/logout").status
    assert 401 == who.ask("GET", "/jobs").status
    who.open()
    now_ms += 12 * 3_600_000
    assert 401 == who.ask("GET", "/jobs").status


FOREIGN: list[tuple[dict[str, str], int]] = [
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site"}, 403),
    ({"content-type": "text/plain"}, 415),
    ({"content-type": "application/json"}, 415),
    ({"content-type": "multipart/form-data; boundary=x"}, 415),
]


@pytest.mark.parametrize("address", [*acts.ACTS, "/stored", "/dead-letter", "/logout"])
def test_a_foreign_page_can_do_nothing(who: Visitor, address: str) -> None:
    for headers, status in FOREIGN:
        answer = who.post(address, headers, group="billing", typed="billing", to="latest", place=PLACE)
        assert status == answer.status, headers
    assert ["dashboard opened"] == [what for what, _ in who.audits]
    assert 200 == who.ask("GET", "/jobs").status, "nobody was logged out"


def test_a_form_needs_the_field_of_its_session_and_an_origin(who: Visitor) -> None:
    assert 403 == who.post("/act/drop", csrf="guess", group="billing", typed="billing").status
    plain = {"content-type": "application/x-www-form-urlencoded", "host": HOST}
    assert 403 == who.ask("POST", "/act/drop", f"csrf={who.csrf}&group=billing&typed=billing".encode(), plain).status


@pytest.mark.parametrize("address", acts.ACTS)
def test_without_allow_writes_nothing_can_be_done(box: ThreadBox, address: str) -> None:
    reader = visitor(box.address)
    look(reader)
    reader.open()
    answer = reader.post(address, group="billing", typed="billing", to="latest")
    assert 404 == answer.status
    assert "start it with --allow-writes" in text(answer)
    assert ["dashboard opened"] == [what for what, _ in reader.audits]


def test_an_address_keeps_the_worker_queue_and_offset_0() -> None:
    """Else no handler of worker 0, the only one of most applications, can be let run on, sent back or buried."""
    told = {"by": "", "to": None, "all_": False, "worker": 0, "queue": 0, "offset": 0}

    assert "/plan/decide?worker=0&queue=0&offset=0" == address_of("/plan/decide", **told)


def test_no_get_acts(who: Visitor) -> None:
    """Whatever is asked for: offsets and audit lines are the same after it."""
    queue, letters = MessageQueue("orders", "broker-a", 0), MessageQueue("%DLQ%billing", "broker-a", 0)

    def state() -> list[Any]:
        with who.site.desk.admin() as admin:
            return [
                admin.ask_master(queue, exchanges.stored_offset("billing", queue)),
                admin.ask_master(queue, exchanges.max_offset(queue)),
                admin.ask_master(letters, exchanges.stored_offset("DLQ_REPLAY_billing", letters)),
            ]

    before = state()
    for address in (*ADDRESSES, *(f"{path}?group=billing&typed=billing&to=latest" for path in acts.ACTS)):
        who.ask("GET", address)
    assert before == state()
    assert ["dashboard opened"] == [what for what, _ in who.audits]


@pytest.mark.parametrize("typed", ["", "Billing", "other"])
def test_what_cannot_be_undone_wants_the_groups_name(who: Visitor, typed: str) -> None:
    for address in ("/act/reset", "/act/replay", "/act/drop"):
        answer = who.post(address, group="billing", typed=typed, to="latest")
        assert 400 == answer.status
        assert "nothing was changed" in text(answer)


def test_every_answer_keeps_the_browser_in_bounds(who: Visitor, box: ThreadBox) -> None:
    for answer in (
        who.ask("GET", "/"),
        who.ask("GET", "/nowhere"),
        visitor(box.address).ask("GET", "/"),
        who.ask("GET", "/static/dashboard.js"),
    ):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'nonce-")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert ("no-store", "nosniff") == (answer.headers["cache-control"], answer.headers["x-content-type-options"])


def test_templates_have_no_way_around_escaping() -> None:
    for path in (HERE / "templates").iterdir():
        source = path.read_text()
        assert not re.search(r"\|\s*safe|autoescape|Markup|style=\"|\son\w+=", source), path.name
    assert not re.search(
        r"innerHTML|insertAdjacentHTML|outerHTML|document\.write|eval\(", (HERE / "static/dashboard.js").read_text()
    )


@pytest.mark.parametrize(
    "address", ["/group?group=%3Cscript%3E", "/queues", "/stored?place=x", "/job?id=<b>", "/message", "/topic?topic=no"]
)
def test_what_is_not_there_is_said(who: Visitor, address: str) -> None:
    answer = who.ask("GET", address)
    assert answer.status in {400, 404}
    assert 'role="alert"' in text(answer)
    assert "<script>" not in text(answer)


def test_groups_of_this_machine_are_paused_through_their_sockets(box: ThreadBox, tmp_path: Path) -> None:
    """A hostile client id and reason included: an application of the same user may say anything."""
    snapshot = played.picture(played.group(), name_servers=(box.address,), not_ready=(ATTACK,))
    told = {
        "snapshot": played.worker(snapshot),
        "pause": {"paused": True},
        "stacks": {"handlers": [], "blocked": ATTACK},
    }
    path = tmp_path / "control"
    with played.listening(path, played.Played(**told)) as application:
        who = visitor(box.address, writes=True, sockets=lambda: [path])
        who.open()
        look(who)
        for address in ("/", "/group?group=billing", "/applications"):
            page = who.get(address)
            assert "&lt;script&gt;alert(2)" in page
            assert _is_harmless(page)
        plan = who.get("/plan/pause?group=billing")
        assert "No handler starts until somebody resumes the group" in plan
        assert not application.changes
        watching = who.site.desk.watching
        watching.again = watching.latest  # type: ignore[method-assign]  # no thread looks here
        assert 303 == who.post("/act/pause", group="billing").status
        assert ["pause"] == [each["ask"] for each in application.changes]
    assert ("dashboard pause", "billing", 1) == (
        who.audits[-1][0],
        who.audits[-1][1]["group"],
        who.audits[-1][1]["processes"],
    )


@pytest.mark.parametrize(
    ("content", "kind", "shown"),
    [
        (b'{"a": 1}', "JSON", '{\n  "a": 1\n}'),
        (b"plain\ntext", "text", "plain\ntext"),
        (b"\xff\x00A", "bytes", "000000  ff 00 41                                         ..A"),
        (b"[" * 100_000, "text", "[" * words.BODY_MAX),
    ],
)
def test_bodies_are_decoded_as_far_as_they_can_be(content: bytes, kind: str, shown: str) -> None:
    found = words.body(content)
    assert (kind, shown) == (found.kind, found.text)
    assert found.cut is (len(content) > words.BODY_MAX)


@pytest.mark.parametrize(("options", "said"), [
    ({"host": "0.0.0.0"}, "can be reached from elsewhere"),
    ({"token": "short"}, "the token has 5 characters"),
])  # fmt: skip
def test_it_does_not_stand_open(options: dict[str, Any], said: str) -> None:
    from framework.cli.dashboard.serving import DashboardOptions, checked

    with pytest.raises(ConfigurationError, match=said):
        checked(DashboardOptions(**options))


def test_the_doctor_leads_to_the_group_that_it_names(who: Visitor) -> None:
    assert '<dd><a href="/group?group=billing">billing</a></dd>' in who.get("/doctor?group=billing")


def test_little_is_not_nothing() -> None:
    assert ["-", "0", "<0.1", "0.1", "12"] == [words.rate(each) for each in (None, 0, 0.02, 0.06, 12.3)]
    assert ["-", "0.0 ms", "<0.1 ms", "9.9 ms", "12 ms"] == [
        words.milliseconds(each) for each in (None, 0, 0.02, 9.94, 12.3)
    ]


def test_a_group_whose_offsets_were_lost_is_unknown_and_stands_among_the_troubles() -> None:
    """Idle is said of a group that never had any: this one the dashboard has seen at work."""
    with thread_box() as box:
        box.send("orders", texts("orders", 4), queue=0)
        _known(box)
        who = visitor(box.address)
        who.open()
        for lost, state in [(False, words.ABANDONED), (True, words.UNKNOWN_STATE)]:
            if lost:
                box.lose_offsets("billing")
            look(who)
            assert state == who.site.desk.watching.latest().groups["billing"].state
            for page in ("/", "/group?group=billing"):
                assert lost == ("no member, and no offset stored in 1 queue with messages: it never" in who.get(page))


def test_a_tail_looks_at_so_many_messages_however_many_queues_there_are(
    box: ThreadBox, who: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from framework.cli.dashboard.views import messages

    monkeypatch.setattr(messages, "LOOKED_AT_MAX", 8)
    for queue in range(4):
        box.send("wide", texts("wide", 5), queue=queue)
    page = who.get("/tail?topic=wide")
    assert "The newest 8 of 8 that were looked at: the last 2 of each queue" in page
