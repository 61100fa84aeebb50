"""What forms, cookies and addresses say, and the kinds of answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import parse_qsl, urlencode

from framework.net.http.messages import HttpRequest, HttpResponse

FORM = "application/x-www-form-urlencoded"
HTML = "text/html; charset=utf-8"
FIELDS_MAX = 50
TEXT_MAX = 1000
Fields: TypeAlias = Mapping[str, str]


def form(request: HttpRequest) -> Fields:
    """What a form holds; of a name that comes twice, the last. A text is cut where no field of ours is that long."""
    try:
        pairs = parse_qsl(request.body.decode("ascii", "replace"), max_num_fields=FIELDS_MAX, errors="replace")
    except ValueError:
        return {}
    return {name: value[:TEXT_MAX] for name, value in pairs}


def cookies(request: HttpRequest) -> Fields:
    pairs = (each.partition("=") for each in request.headers.get("cookie", "").split(";"))
    return {name.strip(): text.strip() for name, _, text in pairs}


def address(path: str, **parameters: object) -> str:
    """A path of ours with its parameters; those that are empty are left out. 0 is a number, though it equals False."""
    told = {name.rstrip("_"): str(value) for name, value in parameters.items() if not _is_empty(value)}
    return f"{path}?{urlencode(told, errors='replace')}" if told else path


def _is_empty(value: object) -> bool:
    return value is None or value is False or value == ""


def number(text: str) -> int | None:
    """Of a form or an address; None where it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def see(path: str, **parameters: object) -> HttpResponse:
    """Go there, by GET."""
    return HttpResponse(303, {"location": address(path, **parameters)})
