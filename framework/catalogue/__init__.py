"""What each error and each log event means and what to do: `errors.md` and `events.md`, one page or row an id.

`docs/errors.md` and `docs/logs.md` are generated from these two; `framework-app explain` prints their pages, and log
lines get their ids here. An id is a letter for the area and three digits: errors begin at 001, log events at 101. It
never changes, and is never used again: what is retired stands in `pages.RETIRED`.
"""
