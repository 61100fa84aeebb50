"""Guard: who may see a page and who may change something. Everybody else gets nothing, not even a style sheet.

A token opens a session; its id is a cookie that scripts cannot read and other sites cannot send. A change needs besides
a field that only our own pages hold, and an origin that is this very page's.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from framework.cli.dashboard.exchanges import FORM, cookies, form
from framework.net.http.messages import HttpRefused, HttpRequest

SESSION_MS = 12 * 3_600_000
SESSIONS_MAX = 64
TOKEN_BYTES = 32
WRONG_SAID_MAX = 10
"""Wrong tokens that the log hears of within a minute: a thousand come a second from one that guesses."""
CSRF = "csrf"


@dataclass(slots=True)
class Session:
    """One browser that showed the token."""

    id: str
    csrf: str
    until_ms: int

    @property
    def short(self) -> str:
        """What audit lines call it: no secret."""
        return sha256(self.id.encode()).hexdigest()[:8]


@dataclass(slots=True)
class Guard:
    """One a dashboard."""

    token: str
    port: int
    now_ms: Callable[[], int]
    chance: Callable[[int], bytes]
    _sessions: dict[str, Session] = field(default_factory=dict)
    _wrong: tuple[int, int] = (0, 0)
    """A minute, and how many tokens were wrong in it."""

    @property
    def cookie(self) -> str:
        return f"framework_app_{self.port}"

    def session(self, request: HttpRequest) -> Session | None:
        """Whose request it is; None without a session that is open."""
        found = self._sessions.get(cookies(request).get(self.cookie, ""))
        if found is None or found.until_ms <= self.now_ms():
            return None
        return found

    def check_from_us(self, request: HttpRequest) -> None:
        """Refuse a POST that another page could have sent, by a text that holds nothing of it."""
        kind = (request.headers.get("content-type") or "").partition(";")[0].strip().lower()
        if kind != FORM:
            raise HttpRefused(415, f"a form must be sent as {FORM}")
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        host = request.headers.get("host")
        if site not in {None, "same-origin"} or (origin is not None and origin.partition("://")[2] != host):
            raise HttpRefused(403, "this was sent by a page of another origin")
        if site is None and origin is None:
            raise HttpRefused(403, "a change must name its origin, as browsers do")

    def check_allowed(self, request: HttpRequest, session: Session) -> None:
        """What a change needs beyond a session."""
        self.check_from_us(request)
        if not hmac.compare_digest(form(request).get(CSRF, "").encode(), session.csrf.encode()):
            raise HttpRefused(403, "this form is not of this session: load the page again")

    def open(self, token: str) -> Session | None:
        """A session for whoever knows the token."""
        if not hmac.compare_digest(token.strip().encode(), self.token.encode()):
            return None
        now_ms = self.now_ms()
        self._sessions = {key: each for key, each in self._sessions.items() if each.until_ms > now_ms}
        while len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        made = Session(self.chance(TOKEN_BYTES).hex(), self.chance(TOKEN_BYTES).hex(), now_ms + SESSION_MS)
        self._sessions[made.id] = made
        return made

    def said_of_wrong(self) -> str:
        """What the log is to say of one more wrong token; nothing, where it has said enough within this minute."""
        minute = self.now_ms() // 60_000
        count = self._wrong[1] + 1 if self._wrong[0] == minute else 1
        self._wrong = minute, count
        if count > WRONG_SAID_MAX:
            return ""
        return "wrong token" if count < WRONG_SAID_MAX else "wrong token; no more is said of them within this minute"

    def close(self, session: Session) -> None:
        self._sessions.pop(session.id, None)

    def set_cookie(self, session: Session | None) -> str:
        text, age = (session.id, SESSION_MS // 1000) if session else ("", 0)
        return f"{self.cookie}={text}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}"


def headers(nonce: str) -> dict[str, str]:
    """Of every answer. A page loads its own two files, and sends forms to itself; nothing else."""
    return {
        "content-security-policy": (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
            "img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        ),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",  # none at all would have forms name no origin, either
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }
