"""Change: what the code is without one of its safeguards, as a change of its source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """Lines of one module, as they are, and as they are without the safeguard."""

    module: str
    right: str
    wrong: str

    def put_into(self, source: str) -> str:
        assert 1 == source.count(self.right), f"{self.module} does not read so any more: {self.right!r}"
        return source.replace(self.right, self.wrong)
