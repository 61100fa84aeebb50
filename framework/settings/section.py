"""Section: what all sections of the settings share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.fields import FieldInfo


class Section(BaseModel):
    """They are frozen, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, value: Any) -> Any:
        """`tls:` with no value means the default, as for an empty list or mapping. A single value that is empty is an
        error, unless its field allows it.
        """
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            return value
        fields = cls.model_fields
        return {key: each for key, each in value.items() if each is not None or not _is_collection(fields.get(key))}


def _is_collection(field: FieldInfo | None) -> bool:
    if field is None or field.is_required() or any(hasattr(each, "min_length") for each in field.metadata):
        return False
    kind = field.annotation
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_origin(kind) in {tuple, Mapping}
