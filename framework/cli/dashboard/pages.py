"""Pages: templates to HTML. All that a page says is escaped, and control signs in it become `?`, on every page.

jinja2 comes with the extra `dashboard`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from framework.cli.dashboard import words
from framework.cli.dashboard.exchanges import HTML, address
from framework.errors import FrameworkError
from framework.net.http.messages import HttpResponse

HERE = Path(__file__).parent
STATIC: Mapping[str, tuple[str, str]] = {
    "/static/dashboard.css": ("dashboard.css", "text/css; charset=utf-8"),
    "/static/dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
}
"""A fixed list: no path that somebody asks for becomes a file's."""
FILTERS = ("count", "some", "rate", "age", "age_ms", "milliseconds", "instant", "stamp", "clock", "size", "line")


class Pages:
    """The templates, read once."""

    def __init__(self) -> None:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        class Fields(Environment):
            """Of a dict `row.keys` is its field of this name, and no method."""

            def getattr(self, obj: Any, attribute: str) -> Any:
                return self.getitem(obj, attribute) if isinstance(obj, dict) else super().getattr(obj, attribute)

        self._templates = Fields(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            finalize=words.text,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters.update({name: getattr(words, name) for name in FILTERS})
        self._templates.filters["known"] = lambda told: None if isinstance(told, FrameworkError) else told
        self._templates.globals["address"] = address
        self._files = {path: (HERE / "static" / name).read_bytes() for path, (name, _) in STATIC.items()}

    def render(self, template: str, status: int = 200, **facts: Any) -> HttpResponse:
        text = self._templates.get_template(template).render(**facts)
        return HttpResponse(status, {"content-type": HTML}, text.encode("utf-8", "replace"))

    def static(self, path: str) -> HttpResponse | None:
        found = self._files.get(path)
        return None if found is None else HttpResponse(200, {"content-type": STATIC[path][1]}, found)
