"""Bodies become what the annotation says, or say why they cannot; nothing of a body stands in a reason."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from types import GenericAlias, ModuleType
from typing import Annotated, Any, Literal, NamedTuple, get_args

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from framework.declare.decoding import decoder_for
from framework.errors import BodyUndecodable, ConfigurationError


class Order(BaseModel):
    number: str
    cents: Annotated[int, Field(gt=0)]


@dataclass
class Step:
    article: str
    pieces: int = 1


class Payment(TypedDict):
    number: str


class Place(NamedTuple):
    x: int
    y: int


class Created(BaseModel):
    kind: Literal["created"]


class Gone(BaseModel):
    kind: Literal["gone"]


@pytest.mark.parametrize(
    ("annotation", "body", "value"),
    [
        (str, "grün".encode(), "grün"),
        (dict, b'{"a": 1}', {"a": 1}),
        (list, b"[1, 2]", [1, 2]),
        (dict[str, int], b'{"a": 1}', {"a": 1}),
        (Order, b'{"number": "1", "cents": 5}', Order(number="1", cents=5)),
        (list[Order], b'[{"number": "1", "cents": 5}]', [Order(number="1", cents=5)]),
        (Order | None, b"null", None),
        (Created | Gone, b'{"kind": "gone"}', Gone(kind="gone")),
        (Annotated[Created | Gone, Field(discriminator="kind")], b'{"kind": "created"}', Created(kind="created")),
        (
            list[Created | Gone],
            b'[{"kind": "gone"}, {"kind": "created"}]',
            [Gone(kind="gone"), Created(kind="created")],
        ),
        (dict[str, list[Order]], b'{"a": [{"number": "1", "cents": 5}]}', {"a": [Order(number="1", cents=5)]}),
        (Step, b'{"article": "tea"}', Step("tea")),
        (list[Step], b'[{"article": "tea"}]', [Step("tea")]),
        (Payment, b'{"number": "1"}', {"number": "1"}),
        (Place, b"[1, 2]", Place(1, 2)),
    ],
    ids=str,
)
def test_a_body_becomes_what_it_is_annotated(annotation: Any, body: bytes, value: object) -> None:
    decode = decoder_for(annotation, "it")

    assert decode is not None
    assert value == decode(body)


def test_bytes_need_nothing() -> None:
    assert decoder_for(bytes, "it") is None


@pytest.mark.parametrize(
    ("annotation", "body", "reason"),
    [
        (str, b"\xff", "not a str: 'utf-8' codec can't decode byte"),
        (dict, b"secret", "not a dict: not JSON: Expecting value"),
        (dict, b"[1]", "not a dict: the JSON is a list"),
        (list, b'{"a": 1}', "not a list: the JSON is a dict"),
        (list, b"[" * 100_000, "not a list: not JSON: "),
        (dict, b"\xff\xfe", "not a dict: not JSON: "),
        (Order, b'{"number": "secret", "cents": 0}', "not a Order: cents: Input should be greater than 0"),
        (Order, b"{}", "not a Order: number: Field required (and 1 more)"),
        (Order, b"secret", "not a Order: Invalid JSON: expected value at line 1 column 1"),
        (list[Order], b'[{"number": "1"}]', "Order]: 0.cents: Field required"),
    ],
    ids=str,
)
def test_a_body_that_is_something_else_says_why(annotation: Any, body: bytes, reason: str) -> None:
    decode = decoder_for(annotation, "it")
    assert decode is not None

    with pytest.raises(BodyUndecodable) as caught:
        decode(body)
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("annotation", [int, float, bool, None, object, bytearray, set, type(sys)], ids=str)
def test_what_no_body_can_be_is_refused(annotation: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"parameter 'it' is annotated .*; a handler gets the body"):
        decoder_for(annotation, "it")


def test_a_model_that_is_not_complete_names_what_is_missing() -> None:
    class Basket(BaseModel):
        lines: list[Nowhere]  # type: ignore[name-defined]  # noqa: F821 - which is the mistake

    with pytest.raises(ConfigurationError, match="Basket is incomplete: 'Nowhere' is not defined yet"):
        decoder_for(Basket, "it")


@pytest.mark.parametrize(
    "shape", [lambda model: model, lambda model: GenericAlias(list, model)], ids=["alone", "in a list"]
)
def test_a_model_of_pydantic_1_is_refused(shape: Any) -> None:
    """pydantic takes it with a warning, and then each body fails, sixteen retries long."""
    from pydantic import v1

    class Parcel(v1.BaseModel):
        number: int

    with pytest.raises(ConfigurationError, match=r"annotated .*Parcel.*: .*pydantic 1; write pydantic\.BaseModel"):
        decoder_for(shape(Parcel), "it")


class _Msgspec(ModuleType):
    """As much of msgspec as we use. The real one is in no requirement of ours: Litestar brings it to the tests."""

    class Struct:
        number: str

    class MsgspecError(Exception): ...

    class json:  # noqa: N801 - its name
        class Decoder:
            def __init__(self, kind: Any) -> None:
                if "Untagged" in str(kind):
                    raise TypeError("Type unions may not contain more than one Struct type unless they are tagged")
                self.kind = kind

            def decode(self, body: bytes) -> object:
                if body != b"{}":
                    raise _Msgspec.MsgspecError("JSON is malformed")
                return self.kind() if isinstance(self.kind, type) and not get_args(self.kind) else [self.kind]


@pytest.fixture
def msgspec(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = _Msgspec("msgspec")
    monkeypatch.setitem(sys.modules, "msgspec", module)
    return module


def test_a_struct_is_decoded_by_msgspec(msgspec: Any) -> None:
    class Order(msgspec.Struct):  # type: ignore[misc]  # a module made here
        pass

    decode = decoder_for(Order, "it")
    assert decode is not None
    assert isinstance(decode(b"{}"), Order)
    with pytest.raises(BodyUndecodable, match="not a Order: JSON is malformed"):
        decode(b"secret")


def test_structs_in_lists_and_unions_are_msgspec_s_too(msgspec: Any) -> None:
    """To pydantic they are unknown classes."""

    class Paid(msgspec.Struct): ...  # type: ignore[misc]  # likewise

    class Sent(msgspec.Struct): ...  # type: ignore[misc]  # likewise

    for annotation in (list[Paid], Paid | None, Paid | Sent, dict[str, list[Sent]], Annotated[Paid, "note"]):
        decode = decoder_for(annotation, "it")
        assert decode is not None
        assert [annotation] == decode(b"{}")
        with pytest.raises(BodyUndecodable, match="JSON is malformed"):
            decode(b"no")


def test_what_msgspec_cannot_read_is_refused_when_it_is_declared(msgspec: Any) -> None:
    class Untagged(msgspec.Struct): ...  # type: ignore[misc]  # likewise

    with pytest.raises(ConfigurationError, match=r"parameter 'it' is annotated .*Untagged.*unless they are tagged"):
        decoder_for(list[Untagged], "it")
    with pytest.raises(ConfigurationError, match="mixes msgspec structs and pydantic models; use structs only"):
        decoder_for(Untagged | Order, "it")


def test_msgspec_is_not_imported_by_us() -> None:
    """In a process of its own: here a plugin of pytest's may have."""
    code = (
        "import dataclasses, sys\n"
        "from framework.declare.decoding import decoder_for\n"
        "Order = dataclasses.make_dataclass('Order', [('number', int)])\n"
        "decoder_for(Order, 'it')\n"
        "sys.exit('msgspec' in sys.modules)"
    )
    assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode
