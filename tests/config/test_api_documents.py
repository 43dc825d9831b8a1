"""Documents of OpenAPI as they are read: JSON and YAML, files beside them, and what is kept of a URL."""

from pathlib import Path

import msgspec
import pytest
import yaml

from tooldispatchd.catalog.openapi.adapter import ApiSource
from tooldispatchd.config.api_documents import LARGE_YAML_BYTES, UnusableApiError, as_json, read_source
from tooldispatchd.config.kept_documents import KeptDocument, KeptDocuments, digest_of

ENVIRON: dict[str, str] = {}


def value_of(text: bytes) -> object:
    return msgspec.json.decode(text)


def test_json_and_yaml_are_told_apart_by_their_content(tmp_path: Path) -> None:
    for name, content in (("a.yaml", '\ufeff {"openapi": "3.1.0"}'), ("a.json", "openapi: 3.1.0\n")):
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert value_of(read_source(str(tmp_path / name), "t", ENVIRON).text) == {"openapi": "3.1.0"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a: *x", "line 1: an alias (*) stands for nothing that is complete"),
        (b"a: [", "line 2: not YAML: did not find expected node content"),
        (b"a: \xff", "it is not UTF-8"),
        (
            b"a: &a [1]\n"
            + b"\n".join(b"a%d: &a%d [%b*a%d%b]" % (n, n, b"[" * 90, n - 1, b"]" * 90) for n in range(1, 30)).replace(
                b"*a0", b"*a"
            ),
            "what its aliases stand for is nested too deep",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(content: bytes, why: str) -> None:
    with pytest.raises(UnusableApiError) as caught:
        as_json(content)
    assert caught.value.why == why


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnusableApiError) as caught:
        read_source(str(tmp_path / "no.json"), "t", ENVIRON)
    assert caught.value.why == "cannot read this file: No such file or directory"


def test_a_url_is_never_asked_and_what_is_kept_of_it_is_read(tmp_path: Path) -> None:
    environ = {"STATE_DIRECTORY": str(tmp_path)}
    url = "https://docs.example/openapi.json"
    with pytest.raises(UnusableApiError) as caught:
        read_source(url, "pets", environ)
    assert caught.value.why == "this document has not been fetched yet, and is not at a start"
    assert caught.value.allowed == "tooldispatchd openapi pets --update"
    KeptDocuments(environ).write(url, KeptDocument(b"{}", "x"))
    assert read_source(url, "pets", environ) == ApiSource(b"{}", url=url)


def test_a_large_document_in_yaml_is_read_once(tmp_path: Path) -> None:
    environ = {"STATE_DIRECTORY": str(tmp_path / "state")}
    path = tmp_path / "large.yaml"
    path.write_text(yaml.safe_dump({"a": ["x" * 80] * (LARGE_YAML_BYTES // 80)}))
    first = read_source(str(path), "t", environ).text
    kept = KeptDocuments(environ)
    found = kept.read(str(path))
    assert found == KeptDocument(first, digest_of(path.read_bytes()))
    # Whoever reads it now has what is kept.
    kept.write(str(path), KeptDocument(b'{"kept":1}', found.digest))
    assert read_source(str(path), "t", environ).text == b'{"kept":1}'
    path.write_text(path.read_text() + "b: 1\n")
    assert b'"b":1' in read_source(str(path), "t", environ).text


def test_a_document_is_read_where_nothing_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(yaml.safe_dump({"a": ["x" * 80] * (LARGE_YAML_BYTES // 80)}))
    (tmp_path / "state").touch()
    assert read_source(str(path), "t", {"STATE_DIRECTORY": str(tmp_path / "state")}).text.startswith(b'{"a":')


def test_references_lead_to_files_beside_the_document_and_below(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "api.json").write_text(
        '{"a":{"$ref":"./schemas/pet.yaml#/Pet"},"b":{"$ref":"#/a"},"c":{"$ref":"one.json"}}'
    )
    (tmp_path / "schemas" / "pet.yaml").write_text("Pet: {x: {$ref: '#/Tag'}, y: {$ref: 'tag.json#/Tag'}}\nTag: 1\n")
    (tmp_path / "schemas" / "tag.json").write_text('{"Tag":{"$ref":"../api.json#/a"}}')
    (tmp_path / "one.json").write_text('{"z":{"$ref":"schemas/pet.yaml#/Tag"}}')
    source = read_source(str(tmp_path / "api.json"), "t", ENVIRON)
    assert value_of(source.text) == {
        "a": {"$ref": "schemas/pet.yaml#/Pet"},
        "b": {"$ref": "#/a"},
        "c": {"$ref": "one.json"},
    }
    assert {name: value_of(text) for name, text in source.files.items()} == {
        "schemas/pet.yaml": {
            "Pet": {"x": {"$ref": "schemas/pet.yaml#/Tag"}, "y": {"$ref": "schemas/tag.json#/Tag"}},
            "Tag": 1,
        },
        "schemas/tag.json": {"Tag": {"$ref": "#/a"}},
        "one.json": {"z": {"$ref": "schemas/pet.yaml#/Tag"}},
    }


@pytest.mark.parametrize(
    "reference",
    ["../out.json#/a", "/etc/passwd", "https://x.example/a.json", "link.json", "no.json", "file:///etc/passwd"],
)
def test_a_file_that_lies_elsewhere_or_is_not_there_is_not_read(tmp_path: Path, reference: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "out.json").write_text('{"a":1}')
    (home / "link.json").symlink_to(tmp_path / "out.json")
    (home / "api.json").write_bytes(msgspec.json.encode({"a": {"$ref": reference}}))
    source = read_source(str(home / "api.json"), "t", ENVIRON)
    assert source.files == {}
    assert value_of(source.text) == {"a": {"$ref": reference}}


def test_no_more_files_are_read_than_a_document_has(tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f"{number}.json").write_text(f'{{"a":{{"$ref":"{number + 1}.json"}}}}')
    assert len(read_source(str(tmp_path / "0.json"), "t", ENVIRON).files) == 256
