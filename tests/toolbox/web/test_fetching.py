import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from pypdf import PdfWriter

from tests.daemon.spawned import Agent, daemon_on
from tests.daemon.test_workspaces import LANDLOCK, greet
from tests.forked.python.test_context import context
from tests.http.certificates import Authority
from tests.toolbox.web.sites import page, redirect, site
from tooldispatchd.forked.python.context import InvalidInputError, ToolFailedError
from tooldispatchd.toolbox.web.fetching import fetch

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def fetched(answer: bytes, *, options: dict[str, Any] | None = None, **parameters: Any) -> list[Any]:
    """What is told of a site whose one page this is, at `URL`."""
    ctx = context(left_s=8.0, options={"private": True, **(options or {})})
    parts, failed = [], ""
    async with site({"/": answer}) as here:
        try:
            parts = await fetch(f"{here.url}/", ctx, **parameters)
        except ToolFailedError as error:
            failed = str(error)
    if failed:
        # Out of the nursery, which would make a group of it.
        raise ToolFailedError(failed.replace(f"{here.url}/", "URL"))
    return [part.replace(f"{here.url}/", "URL") if isinstance(part, str) else part for part in parts]


async def test_a_page_is_told_with_its_title_and_its_url() -> None:
    assert await fetched(page(b"<title>T</title><p>a <b>b</b></p>")) == ["Title: T\nURL: URL\n\na **b**"]


async def test_the_url_is_the_last_one_after_redirects() -> None:
    async with site({"/": redirect("/end"), "/end": page(b"x", "text/plain")}) as here:
        assert await fetch(here.url, context(options={"private": True})) == [f"URL: {here.url}/end\n\nx"]


async def test_json_stays_as_it_is() -> None:
    assert await fetched(page(b'{"a":[1,2]}', "application/json")) == ['URL: URL\n\n{"a":[1,2]}']


async def test_an_image_is_a_part_that_a_model_can_see() -> None:
    assert await fetched(page(PNG, "image/png")) == [
        "URL: URL\n[image/png, 108 bytes]",
        {"type": "image", "data": PNG, "mimeType": "image/png"},
    ]


async def test_an_image_is_known_by_its_bytes() -> None:
    assert (await fetched(page(PNG, "text/html")))[1]["mimeType"] == "image/png"


async def test_an_image_that_is_too_large_is_told_of_alone() -> None:
    with pytest.raises(ToolFailedError, match="cannot fetch URL: it is image/png, and too large to be shown"):
        await fetched(page(PNG + bytes(5 * 1024 * 1024), "image/png"))


async def test_the_text_of_a_pdf_is_told_page_by_page() -> None:
    writer, file = PdfWriter(), io.BytesIO()
    writer.add_blank_page(100, 100)
    writer.add_blank_page(100, 100)
    writer.write(file)
    [told] = await fetched(page(file.getvalue(), "application/pdf"))
    assert told.startswith("URL: URL\n")
    assert "page 1" in told
    assert "2" in told


async def test_a_broken_pdf_is_one_sentence() -> None:
    with pytest.raises(ToolFailedError, match="it is a PDF that is broken"):
        await fetched(page(b"%PDF-1.7 and no more", "application/pdf"))


async def test_what_is_no_text_is_told_of_with_its_type_and_size() -> None:
    body = b"PK\x03\x04" + bytes(200)
    assert await fetched(page(body, "application/zip")) == [
        "URL: URL\n\n[no text: application/zip, a zip archive, as also office documents and wheels are, 204 bytes]"
    ]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", "[the answer has the status 204 and no content]"),
        (page(b""), "[the answer has the status 200 and no content]"),
        (page(b"<script>1</script>"), "[no text that could be read: perhaps the page is made by scripts]"),
    ],
)
async def test_a_page_without_text_says_so(answer: bytes, told: str) -> None:
    assert await fetched(answer) == [f"URL: URL\n\n{told}"]


async def test_a_long_text_is_cut_between_characters_and_says_how_much_is_left_out() -> None:
    [told] = await fetched(page("aü€".encode() * 1000, "text/plain; charset=utf-8"), max_bytes=1000)
    assert told == "URL: URL\n\n" + "aü€" * 166 + "aü" + "\n\n… 5,001 bytes left out; a larger max_bytes shows more …"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_download_that_was_cut_says_so() -> None:
    [told] = await fetched(page(b"x" * 5000, "text/plain"), options={"max_bytes": 2000})
    assert told == "URL: URL\n\n" + "x" * 2000 + "\n\n… only the first 2,000 bytes were downloaded …"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (page(b"<h1>Not\nhere</h1>", status="404 Not Found"), "the server answered 404: Not here"),
        (page(b"", status="500 Oops"), "the server answered 500"),
        (
            page(b"slow down", "text/plain", "429 Too Many Requests", ("Retry-After: 30",)),
            "the server answered 429 (Retry-After: 30): slow down",
        ),
        (page(b"x" * 9000, "text/plain", "403 Forbidden"), "the server answered 403: " + "x" * 500 + "…"),
        (page(bytes(50), "image/x-icon", "404 Not Found"), "the server answered 404"),
    ],
)
async def test_an_http_error_is_one_sentence_with_what_the_server_says(answer: bytes, said: str) -> None:
    with pytest.raises(ToolFailedError) as raised:
        await fetched(answer)
    assert str(raised.value) == f"cannot fetch URL: {said}"


async def test_private_addresses_are_closed_unless_the_operator_opens_them() -> None:
    with pytest.raises(ToolFailedError, match=r"has an address that this tool may not connect to"):
        await fetched(page(b"x"), options={"private": False})


async def test_a_url_that_is_none_is_an_invalid_input() -> None:
    with pytest.raises(InvalidInputError, match="has to begin with http"):
        await fetch("example.com", context())


CONFIG = """
[tools.fetch]
python = "tooldispatchd.toolbox.web.fetching:fetch"
network = true
read = []
options = { private = true }
[tools.trusting]
python = "tooldispatchd.toolbox.web.fetching:fetch"
network = true
read = ["ca"]
env = { SSL_CERT_FILE = "AUTHORITY" }
options = { private = true }
[agents.default]
tools = ["fetch", "trusting"]
"""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "ca").mkdir()
    return Authority(tmp_path / "ca")


@pytest.fixture
def agent(tmp_path: Path, authority: Authority) -> Iterator[Agent]:
    with daemon_on(tmp_path, CONFIG.replace("AUTHORITY", authority.ca)) as daemon, daemon.agent() as channel:
        greet(channel, "default")
        yield channel


@LANDLOCK
async def test_a_call_that_is_shut_in_fetches_and_is_told_of_failures_in_one_sentence(agent: Agent) -> None:
    async with site({"/": page(b"<title>T</title><p>hello</p>"), "/png": page(PNG, "image/png")}) as here:
        told = await trio.to_thread.run_sync(agent.ask, "fetch", {"url": f"{here.url}/"})
        image = await trio.to_thread.run_sync(agent.ask, "fetch", {"url": f"{here.url}/png"})
        missing = await trio.to_thread.run_sync(agent.ask, "fetch", {"url": f"{here.url}/none"})
        tls = await trio.to_thread.run_sync(agent.ask, "fetch", {"url": f"https://127.0.0.1:{here.port}/"})
        wrong = await trio.to_thread.run_sync(agent.ask, "fetch", {"url": "ftp://h/"})
    assert told["content"] == f"Title: T\nURL: {here.url}/\n\nhello"
    assert json.loads(image["content"])[1]["mimeType"] == "image/png"
    detail = f"cannot fetch {here.url}/none: the server answered 404"
    assert {"error": "tool_failed", "detail": detail}.items() <= json.loads(missing["content"]).items()
    assert "stderr_tail" not in json.loads(missing["content"])
    # The certificates of the system could be read.
    detail = json.loads(tls["content"])["detail"]
    assert detail.startswith(f"cannot fetch https://127.0.0.1:{here.port}/: TLS failed: ")
    assert json.loads(wrong["content"])["error"] == "invalid_input"


@LANDLOCK
async def test_a_call_that_is_shut_in_trusts_the_certificates_that_it_may_read(
    agent: Agent, authority: Authority
) -> None:
    async with site({"/": page(b"safe", "text/plain")}, tls=authority.server_context("127.0.0.1")) as here:
        told = await trio.to_thread.run_sync(agent.ask, "trusting", {"url": f"{here.url}/"})
        other = await trio.to_thread.run_sync(agent.ask, "fetch", {"url": f"{here.url}/"})
    assert told["content"] == f"URL: {here.url}/\n\nsafe"
    assert "its certificate cannot be trusted" in json.loads(other["content"])["detail"]
