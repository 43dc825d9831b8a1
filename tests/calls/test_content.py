"""Results as JSON, as texts and as parts."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.calls.content import of_json, of_parts, of_text, read_answer, rendered, written
from tooldispatchd.calls.outcome import Answer, UnreadableError
from tooldispatchd.wire.messages import ContentKind, QuotedText

JSON, TEXT, BLOCKS = ContentKind.JSON, ContentKind.TEXT, ContentKind.BLOCKS
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
IMAGE = {"type": "image", "data": base64.b64encode(bytes(49_152)).decode(), "mimeType": "image/png"}


def encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()


@given(VALUES)
def test_a_value_as_json_is_what_it_was_and_as_any_other_kind_it_is_kept(value: object) -> None:
    assert of_json(encoded(value), JSON) == Answer(encoded(value))
    for kind in (TEXT, BLOCKS):
        answer = of_json(encoded(value), kind)
        assert answer.content == (value if isinstance(value, str) else encoded(value))
        assert answer.value == encoded(value)


@given(st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "image", "dance"])}, optional={"x": VALUES})))
def test_parts_come_as_they_were_given(parts: list[dict[str, object]]) -> None:
    blocks = of_parts(encoded(parts).encode(), BLOCKS).blocks
    assert isinstance(blocks, Raw)
    assert msgspec.json.decode(blocks) == parts


@given(st.text(max_size=20), st.sampled_from([TEXT, BLOCKS]))
def test_an_answer_in_its_kind_stays_as_it_is(text: str, kind: ContentKind) -> None:
    answer = of_text(text, kind)
    assert rendered(answer, kind) is answer


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "text", "text": "hi"}, "hi"),
        (IMAGE, "[image/png, 48 KiB]"),
        ({"type": "audio", "data": "AAA=", "mimeType": "audio/wav"}, "[audio/wav, 2 B]"),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "read me"}}, "read me"),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/x", "blob": "AAAA"}},
            "[text/x, 3 B]",
        ),
        ({"type": "resource_link", "uri": "file:///a", "name": "a"}, "[resource_link, file:///a]"),
        (
            {"type": "resource_link", "uri": "file:///a", "mimeType": None, "size": None, "title": 7},
            "[resource_link, file:///a]",
        ),
        (
            {"type": "resource", "resource": {"text": "read me", "uri": None, "mimeType": None}, "_meta": None},
            "read me",
        ),
        ({"type": "resource", "resource": {"uri": "file:///a", "mimeType": None, "blob": "AAAA"}}, "[resource, 3 B]"),
        ({"type": "image", "data": "AAA=", "mimeType": None, "annotations": None}, "[image, 2 B]"),
        ({"type": "text", "text": "hi", "uri": None, "resource": None, "annotations": None}, "hi"),
        ({"type": "dance", "steps": [1, 2]}, "[dance, 30 B]"),
        ({"type": "image", "data": 7}, "[image, 25 B]"),
    ],
)
def test_a_part_that_is_no_text_is_named_with_its_type_and_size(part: dict[str, object], text: str) -> None:
    assert of_parts(encoded([part]).encode(), TEXT).content == text


def test_parts_are_joined_line_by_line() -> None:
    parts = [{"type": "text", "text": "before"}, IMAGE, {"type": "text", "text": "after"}]
    answer = of_parts(encoded(parts).encode(), BLOCKS)
    assert answer.content == "before\n[image/png, 48 KiB]\nafter"
    assert answer.largest_part == len(encoded(IMAGE))


def test_parts_as_json_are_their_list_but_a_lone_text_is_that_text() -> None:
    lone = [{"type": "text", "text": "alone"}]
    assert of_parts(encoded(lone).encode(), JSON) == Answer("alone", kind=TEXT)
    both = [*lone, IMAGE]
    assert of_parts(encoded(both).encode(), JSON) == Answer(encoded(both))


@pytest.mark.parametrize("wrong", [b"{}", b"7", b'["a"]', b'[{"kind":"text"}]', b'[{"type":7}]'])
def test_anything_but_a_list_of_objects_with_a_type_is_no_list_of_parts(wrong: bytes) -> None:
    with pytest.raises(UnreadableError, match="list of parts"):
        of_parts(wrong, BLOCKS)


@pytest.mark.parametrize(
    "answer",
    [
        Answer("short", is_error=True, kind=TEXT),
        of_json(encoded("x" * 100_000), BLOCKS),
        of_parts(encoded([IMAGE, {"type": "text", "text": "y" * 100_000}]).encode(), BLOCKS),
        Answer("{}", details=Raw(b'{"a":1}')),
    ],
)
def test_an_answer_leaves_a_checker_as_it_was(answer: Answer) -> None:
    head, content, parts = written(answer)
    came = read_answer(head, bytearray(content), bytearray(parts))
    blocks = Raw(bytes(came.blocks.literal)) if isinstance(came.blocks, QuotedText) else came.blocks
    assert (came.is_error, came.kind, blocks, came.details, came.largest_part) == (
        answer.is_error,
        answer.kind,
        answer.blocks,
        answer.details,
        answer.largest_part,
    )
    literal = came.content if isinstance(came.content, str) else msgspec.json.decode(came.content.literal)
    assert literal == answer.content


def test_a_long_content_and_long_parts_stay_in_the_buffers_in_which_they_came() -> None:
    head, *rest = written(of_json(encoded("x" * 100_000), BLOCKS))
    content, parts = map(bytearray, rest)
    came = read_answer(head, content, parts)
    assert isinstance(came.content, QuotedText)
    assert isinstance(came.blocks, QuotedText)
    assert came.content.literal is content
    assert came.blocks.literal is parts
