"""What an annotation means that was written as text, as under `from __future__ import annotations`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, get_type_hints

from framework.mistakes import ParameterWrong
from framework.model.delivery import Delivery
from framework.model.message import Message

_OURS: dict[str, Any] = {"Message": Message, "Delivery": Delivery}


def resolved(annotation: str, function: Callable[..., object], names: Mapping[str, Any], parameter: str) -> Any:
    """What the text means where the function stands; our own names also where only type checkers import them."""
    known = getattr(function, "__globals__", {})
    local = {**{name: kind for name, kind in _OURS.items() if name not in known}, **names}
    try:
        hints = get_type_hints(
            SimpleNamespace(__annotations__={"it": annotation}), globalns=known, localns=local, include_extras=True
        )
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        ours = _OURS.get(annotation.rpartition(".")[2])
        if ours is not None:
            return ours
        raise ParameterWrong(
            f"parameter {parameter!r} is annotated {annotation!r}, which is not known where the handler is declared "
            f"({error}); define or import it above the handler, and not under TYPE_CHECKING"
        ) from None
    return hints["it"]
