import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.children.tail import STDERR_TAIL_BYTES, Tail, telling_line


def test_everything_is_kept_while_it_fits() -> None:
    tail = Tail(8)
    tail.add(b"abc")
    tail.add(b"defgh")
    assert tail.text() == "abcdefgh"


def test_the_front_falls_off() -> None:
    tail = Tail(4)
    tail.add(b"abc")
    tail.add(b"def")
    assert tail.text() == "cdef"
    assert tail.total == 6


def test_a_chunk_larger_than_the_ring_leaves_its_end() -> None:
    tail = Tail(4)
    tail.add(b"x" * 1000 + b"end!")
    assert tail.text() == "end!"


def test_a_character_cut_at_the_front_is_left_out() -> None:
    tail = Tail(4)
    tail.add("€uro".encode())
    assert tail.text() == "uro"


def test_a_character_of_which_only_the_beginning_came_is_left_out() -> None:
    tail = Tail()
    tail.add("10 €".encode()[:-1])
    assert tail.text() == "10 "
    tail.add("€".encode()[-1:])
    assert tail.text() == "10 €"


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    tail = Tail()
    tail.add(b"\x80ok\xff")
    assert tail.text() == "\ufffdok\ufffd"


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30))
def test_any_chunks_leave_the_last_bytes(chunks: list[bytes], size: int) -> None:
    tail = Tail(size)
    for chunk in chunks:
        tail.add(chunk)
    whole = b"".join(chunks)
    assert tail.total == len(whole)
    kept = whole[-size:].decode(errors="replace")
    # The beginning of a character at the end is left out.
    assert kept.endswith(tail.text()) or kept.removesuffix("\ufffd").endswith(tail.text())


@given(st.text(), st.integers(1, 30), st.integers(0, 3))
def test_text_is_never_cut_within_a_character(text: str, size: int, missing: int) -> None:
    tail = Tail(size)
    chunk = text.encode()
    whole = chunk[: len(chunk) - missing].decode(errors="ignore")
    tail.add(chunk[: max(0, len(chunk) - missing)])
    assert whole.endswith(tail.text())


def test_an_excerpt_of_little_is_all_of_it() -> None:
    tail = Tail()
    tail.add(b"x" * STDERR_TAIL_BYTES)
    assert tail.excerpt() == "x" * STDERR_TAIL_BYTES


def test_an_excerpt_of_much_has_the_beginning_and_the_end() -> None:
    tail = Tail()
    for number in range(10_000):
        tail.add(b"line %d\n" % number)
    excerpt = tail.excerpt()
    assert excerpt.startswith("line 0\nline 1\n")
    assert f"\n[{tail.total - STDERR_TAIL_BYTES} bytes are left out]\n" in excerpt
    assert excerpt.endswith("line 9998\nline 9999\n")


@given(st.lists(st.text(max_size=2000), max_size=20))
def test_an_excerpt_is_bounded_and_of_characters(texts: list[str]) -> None:
    tail = Tail()
    for text in texts:
        tail.add(text.encode())
    excerpt = tail.excerpt()
    assert len(excerpt.encode()) <= STDERR_TAIL_BYTES + 40
    assert ("\ufffd" in excerpt) <= ("\ufffd" in "".join(texts))


NPM = """\
npm error code E404
npm error 404 Not Found - GET https://npm.example/nosuch - Not found
npm error 404
npm error 404  'nosuch@*' is not in this registry.
npm error A complete log of this run can be found in: /home/ann/.npm/_logs/x-debug-0.log
"""
OLD_NPM = """\
npm ERR! code ENOENT
npm ERR! syscall open
npm ERR! enoent Could not read package.json
npm ERR! A complete log of this run can be found in:
npm ERR!     /home/ann/.npm/_logs/x-debug-0.log
"""
NODE = """\
node:internal/modules/cjs/loader:1143
  throw err;
  ^

Error: Cannot find module '/srv/x.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1140:15) {
  code: 'MODULE_NOT_FOUND'
}

Node.js v20.11.0
"""
PYTHON = """\
Traceback (most recent call last):
  File "x.py", line 1, in <module>
    raise KeyError("error")
KeyError: 'error'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "x.py", line 3, in <module>
    import nosuch
ModuleNotFoundError: No module named 'nosuch'
"""


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        ("", ""),
        ("\n  \n", ""),
        ("starting\nno key set\n", "no key set"),
        ("usage: x [-h]\nx: error: what is that?\nsee x --help\n", "x: error: what is that?"),
        ("\x1b[31merror\x1b[0m: no\n", "error: no"),
        ("  x No solution\n  ╰─▶ because x was not found\n", "╰─▶ because x was not found"),
        (NPM, "404 Not Found - GET https://npm.example/nosuch - Not found"),
        (OLD_NPM, "enoent Could not read package.json"),
        ("no key set\nnpm notice\nnpm notice New version of npm\nnpm notice\n", "no key set"),
        ("npm notice\n", ""),
        (NODE, "Error: Cannot find module '/srv/x.js'"),
        (PYTHON, "ModuleNotFoundError: No module named 'nosuch'"),
    ],
)
def test_the_line_that_says_most_is_found(stderr: str, line: str) -> None:
    assert telling_line(stderr) == line
