"""Secrets that are known are masked in every spelling in which they may come back; short ones are not."""

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.masker import NO_SECRETS, Masker
from tooldispatchd.catalog.secrecy import MASK

TOKEN = "s3cret/token+1"
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nxyz\n-----END KEY-----"


@pytest.mark.parametrize(
    ("secrets", "text", "masked"),
    [
        ([TOKEN], f"a {TOKEN} b {TOKEN}", "a … b …"),
        ([TOKEN], f"?key={quote(TOKEN, safe='')}&x", "?key=…&x"),
        (['qu"ote\\d'], json.dumps({"k": 'qu"ote\\d'}), '{"k": "…"}'),
        (["schlüssel"], json.dumps("schlüssel"), '"…"'),
        (["abcdef", "abcdefgh"], "abcdefgh abcdef", "… …"),
        (["short"], "short", "short"),
        ([KEY], f"key: {KEY}.", "key: …."),
        ([KEY], "line MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "line …"),
        ([KEY], "xyz stays", "xyz stays"),
        ([], TOKEN, TOKEN),
        ([""], "text", "text"),
    ],
)
def test_a_secret_is_masked_however_it_is_written(secrets: list[str], text: str, masked: str) -> None:
    assert Masker(secrets).mask(text) == masked
    assert Masker(secrets).mask_bytes(text.encode()).replace(b'":"', b'": "') == masked.encode()


@pytest.mark.parametrize(
    ("secret", "value", "masked"),
    [
        # Digits of a number are none; a text with a line's end before "hunter2" has no "nhunter2".
        ("12345678", {"pin": 12345678, "as": "12345678", "12345678": 1}, {"pin": 12345678, "as": "…", "…": 1}),
        ("nhunter2", ["\nhunter2", "nhunter2", "\\nhunter2"], ["\nhunter2", "…", "\\…"]),
        ("\nhunter2", ["\nhunter2", "\\nhunter2"], ["…", "…"]),
        ("hunter2\\", ["hunter2\n", 'hunter2\\"', "hunter2\\"], ["hunter2\n", '…"', "…"]),
        ("u00e9abc", ["\x00e9abc", "u00e9abc"], ["\x00e9abc", "…"]),
    ],
)
def test_json_stays_json(secret: str, value: object, masked: object) -> None:
    text = json.dumps(value)
    assert json.loads(Masker([secret]).mask_json(text)) == masked
    assert json.loads(Masker([secret]).mask_bytes(text.encode())) == masked


ODD = 'S3cr3t/Va"lue\\x ü'


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(json.dumps(ODD)),
        json.dumps({"x": json.dumps({"y": ODD}, ensure_ascii=False)}),
        json.dumps({ODD: [json.dumps([json.dumps(ODD)])]}),
        json.dumps(ODD).replace("/", "\\/").replace("V", "\\u0056"),
        f"as a text: {json.dumps(json.dumps(ODD))}",
    ],
)
def test_a_secret_is_found_in_json_that_is_a_text_in_json(text: str) -> None:
    masker = Masker([ODD])
    for masked in (masker.mask_json(text), masker.mask_bytes(text.encode()).decode()):
        assert "lue" not in masked
        assert MASK in masked


def test_json_without_a_secret_stays_as_it_was_written() -> None:
    text = '{"a": "line\\nline", "b": 1.0, "c": "\\u00e9"}'
    assert Masker([ODD]).mask_json(text) == text
    assert Masker([ODD]).mask_bytes(text.encode()) == text.encode()


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('{"k":"a s3cret\\/token+1"}', '{"k":"a …"}'),
        ('{"s3cret/\\u0074oken\\u002B1": 1.0}', '{"…":1.0}'),
        # What holds none stays as it was written.
        ('{"k": "\\/\\u0041", "n": 1e2}', '{"k": "\\/\\u0041", "n": 1e2}'),
        ("s3cret\\/token+1 is no JSON", "s3cret\\/token+1 is no JSON"),
    ],
)
def test_no_escape_of_json_hides_a_secret(text: str, masked: str) -> None:
    assert Masker([TOKEN]).mask_json(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('{"a":"s3cret/token+1","a":"x"}', '{"a":"x"}'),
        ('[{"a": "s3cret\\/token\\u002b1", "a": "x"}]', '[{"a":"x"}]'),
        # Where no name stands twice, or there is no secret, it stays as it was written.
        ('[{"a": "\\/", "b": 1e2}, {"a": "x"}]', '[{"a": "\\/", "b": 1e2}, {"a": "x"}]'),
        ('{"a": "s3cret", "a": 1e2}', '{"a": "s3cret", "a": 1e2}'),
    ],
)
def test_a_name_that_stands_twice_hides_no_secret(text: str, masked: str) -> None:
    assert Masker([TOKEN]).mask_json(text) == masked
    assert Masker([TOKEN]).mask_bytes(text.encode()) == masked.encode()


def test_what_is_learnt_of_somebody_replaces_what_was_before() -> None:
    masker = Masker(["stated-secret"])
    masker.learn("one", ["first-token", "kept-token"])
    masker.learn("other", ["other-token"])
    masker.learn("one", ["next-token", "kept-token"])
    text = "stated-secret first-token kept-token other-token next-token"
    assert masker.mask(text) == "… first-token … … …"
    assert masker.longest == len("stated-secret")
    masker.learn("one", [])
    assert masker.secrets == {"stated-secret", "other-token"}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("token+1 and more", "… and more"),
        ("it was s3cret/", "it was …"),
        ("n+1 is too little of it", "n+1 is too little of it"),
        ("a s3cret/token+1 b", "a … b"),
        ("", ""),
    ],
)
def test_what_is_left_of_a_secret_at_the_ends_of_a_cut_text_is_masked(text: str, masked: str) -> None:
    assert Masker([TOKEN]).mask_cut(text) == masked


def test_every_text_in_a_value_is_masked() -> None:
    value = {"a": [TOKEN, 1, None, {"b": TOKEN}], "c": "plain"}
    assert Masker([TOKEN]).mask_value(value) == {"a": ["…", 1, None, {"b": "…"}], "c": "plain"}


def test_a_masker_shows_no_secret_and_knows_whether_it_has_any() -> None:
    assert TOKEN not in repr(Masker([TOKEN]))
    assert [bool(Masker([TOKEN])), bool(Masker(["abc"])), bool(NO_SECRETS)] == [True, False, False]


@given(
    st.lists(st.text("abc", min_size=6, max_size=12), min_size=1, max_size=4), st.text("abc ", max_size=60), st.data()
)
def test_no_secret_is_left_in_any_text_nor_a_long_part_at_its_ends(
    secrets: list[str], text: str, data: st.DataObject
) -> None:
    masker = Masker(secrets)
    whole = text + data.draw(st.sampled_from(secrets)) + text
    masked = masker.mask_cut(whole)
    assert not any(secret in masked for secret in secrets)


def test_a_short_secret_is_masked_where_it_is_a_word_of_its_own() -> None:
    masker = Masker(["a-long-secret"], words=["in", "in-a", "a+b", "a-long-secret"])
    assert masker.mask("in vain, in a-long-secretx: a+b, a+bc, <in-a>") == "… vain, … …x: …, a+bc, <…>"
    assert masker.mask_bytes(b'{"a":"in"}') == '{"a":"…"}'.encode()
    assert masker.mask_value(["in", "inn", 1]) == ["…", "inn", 1]
    assert bool(Masker(words=["in"]))
