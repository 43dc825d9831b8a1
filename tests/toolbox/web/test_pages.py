import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.toolbox.web.pages import page_of

URL = "https://example.com/docs/index.html"
ARTICLE = """<!doctype html><html><head><title> A &amp; B\n guide </title><style>p</style><script>1 < 2</script></head>
<body><header>site name</header><nav><a href="/n">menu</a></nav><main><h1>Head</h1><p>One <b>bold</b>
<a href="../next?x=1">link</a>.</p><pre><code class="language-py">def f():
    return 1
</code></pre><table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table><ul><li>x<ul><li>y</li></ul></li></ul>
<p hidden>unseen</p><img src="data:image/png;base64,AAAA" alt="a chart"></main><footer>imprint</footer></body></html>"""


def text(body: bytes, content_type: str = "text/html", form: str = "text") -> str | None:
    page = page_of(body, content_type, URL, form=form)  # type: ignore[arg-type]  # one of the three
    return None if page is None else page.text


def test_html_becomes_markdown_without_what_stands_around_it() -> None:
    page = page_of(ARTICLE.encode(), "text/html; charset=utf-8", URL, form="markdown")
    assert page is not None
    assert page.title == "A & B guide"
    assert page.text == (
        "# Head\n\nOne **bold** [link](https://example.com/next?x=1).\n\n```py\ndef f():\n    return 1\n```\n\n"
        "| A | B |\n| --- | --- |\n| 1 | 2 |\n\n- x\n  * y\n\na chart"
    )


def test_html_becomes_plain_text() -> None:
    assert text(ARTICLE.encode()) == (
        "Head\n\nOne bold\nlink.\n\ndef f():\n    return 1\n\nA\tB\n1\t2\n\n- x\n- y\n\na chart"
    )


def test_raw_html_is_its_source() -> None:
    assert text(ARTICLE.encode(), form="raw") == ARTICLE


def test_a_page_that_is_nothing_but_navigation_is_told_all_the_same() -> None:
    assert text(b"<body><footer><p>only this</p></footer></body>", form="markdown") == "only this"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("für".encode(), "text/html; charset=utf-8"),
        ("für".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        ("für".encode("utf-16"), "text/html"),
        (b"\xef\xbb\xbf" + "für".encode(), "text/html; charset=latin-1"),
        (b'<meta charset="windows-1252">f\xfcr', "text/html"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=latin1">f\xfcr', "text/html"),
        ("<meta charset=utf-16>für".encode(), "text/html"),
        (b'<meta charset="unicode_escape">f\xc3\xbcr', "text/html"),
        (b'<meta charset="no-such-charset">f\xfcr', "text/html"),
        (b"f\xfcr", "text/html"),
        ("für".encode(), "text/html; charset="),
        ("für".encode(), "text/html; charset=" + " " * 60_000),
        ("für".encode(), "text/html; charset=base64"),
        ("für".encode(), ""),
    ],
)
def test_a_text_is_read_in_its_charset(body: bytes, content_type: str) -> None:
    assert (text(body, content_type) or "").strip() == "für"


@pytest.mark.parametrize(
    ("words", "charset"),
    [
        ("日本語のページです", "shift_jis"),
        ("日本語", "iso-2022-jp"),
        ("中文网页", "gbk"),
        ("русский", "koi8-r"),
        ("한국어", "euc-kr"),
    ],
)
def test_a_page_may_be_written_in_any_charset_of_the_web(words: str, charset: str) -> None:
    assert text(f"<meta charset={charset}><p>{words}</p>".encode(charset)) == words


def test_euros_in_what_calls_itself_latin_1_are_euros() -> None:
    assert text(b"5 \x80", "text/plain; charset=iso-8859-1") == "5 €"


def test_one_wrong_byte_does_not_change_the_rest() -> None:
    assert text("für".encode() + b" \xff " + "über".encode(), "text/plain; charset=utf-8") == "für \ufffd über"


def test_xml_says_its_charset_too() -> None:
    body = '<?xml version="1.0" encoding="windows-1251"?><a>да</a>'.encode("cp1251")
    assert text(body, "application/xml") == '<?xml version="1.0" encoding="windows-1251"?><a>да</a>'


def test_a_page_without_a_type_is_known_by_its_beginning() -> None:
    assert text(b"\n<!-- x --> <!DOCTYPE html><p>hello</p>", "") == "hello"


@pytest.mark.parametrize("content_type", ["text/plain", "application/json", "application/octet-stream"])
def test_what_is_no_html_stays_as_it_is(content_type: str) -> None:
    assert text(b'{"a": "<b>x</b>"}', content_type) == '{"a": "<b>x</b>"}'


@pytest.mark.parametrize("content_type", ["", "text/html; charset=utf-8", "application/zip"])
def test_what_is_binary_is_no_page(content_type: str) -> None:
    assert page_of(b"PK\x03\x04" + bytes(range(256)) * 8, content_type, URL, form="markdown") is None


@pytest.mark.parametrize(
    "source",
    [
        *("<div>" * 100_000 + "x", "<table><tr><td>" * 10_000 + "x", "<blockquote>" * 10_000 + "x", "<b>" * 100_000),
        *("<!--" * 250_000, "<a " + "a=b " * 250_000 + ">", "&" * 500_000, "<title" * 150_000, "<" * 500_000),
        *("<title>" * 100_000, "<!-- -->" * 100_000, "<p " + "<" * 500_000, "<title>" + "&amp;" * 100_000),
    ],
)
def test_a_page_made_to_be_slow_is_not(source: str) -> None:
    began = time.process_time()
    for form in ("markdown", "text"):
        assert text(source.encode(), "", form) is not None
        assert text(source.encode(), "text/html", form) is not None
    assert time.process_time() - began < 5


@given(
    st.binary(max_size=300), st.sampled_from(["", "text/html", "text/html; charset=utf-8", "text/plain", "image/png"])
)
def test_any_bytes_are_a_page_or_none(body: bytes, content_type: str) -> None:
    for form in ("markdown", "text", "raw"):
        found = text(body, content_type, form)
        assert found is None or found.encode("utf-8", "surrogateescape") is not None
