import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tooldispatchd.cli import explain
from tooldispatchd.cli.faultpages import READERS, read_pages, read_registry, read_texts

TIMEOUT = {"error": "timeout", "category": "unavailable", "detail": "it took too long", "limit_ms": 50, "stage": "run"}
ANSWER = {"__port": "tool_resp", "id": "1", "content": json.dumps(TIMEOUT), "is_error": True, "fault": True}


def run_explain(*words: str) -> int:
    parser = argparse.ArgumentParser()
    explain.add_arguments(parser)
    return explain.run(parser.parse_args(words))


def test_every_code_of_the_registry_has_its_page_and_no_page_is_orphaned() -> None:
    assert list(read_texts()) == [row["code"] for row in read_registry()]


def test_each_page_says_what_somebody_can_do() -> None:
    for page in read_texts().values():
        assert page.keys() <= {"cause", *READERS}
        assert page.keys() & READERS.keys()
        assert all(text.endswith(".") for text in page.values())


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explain() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(read_pages())


def test_a_page_names_its_readers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explain("queue_full") == 0
    out = capsys.readouterr().out
    assert out.startswith("queue_full: too many calls are waiting\n")
    assert [line for line in out.splitlines() if line.startswith("the ")] == [f"{who}:" for who in READERS.values()]


@pytest.mark.parametrize("seen", [TIMEOUT, {"__port": "fault", "line": 3, **TIMEOUT}, ANSWER])
def test_a_fault_is_explained_as_it_was_seen(seen: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explain(json.dumps(seen)) == 0
    out = capsys.readouterr().out
    assert out.startswith("timeout: ")
    assert out.endswith('this one:\n    it took too long\n    limit_ms: 50\n    stage: "run"\n')


@pytest.mark.parametrize("begun", ["", "tooldispatchd: "])
def test_a_fault_is_explained_as_a_command_tells_it(begun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explain(f"{begun}unknown_target: there is no such job\n") == 0
    out = capsys.readouterr().out
    assert out.startswith("unknown_target: ")
    assert out.endswith("this one:\n    there is no such job\n")


def test_a_fault_may_come_on_stdin() -> None:
    words = [sys.executable, "-m", "tooldispatchd", "explain", "-"]
    done = subprocess.run(words, input=json.dumps(TIMEOUT) + "\n", capture_output=True, text=True, check=True)
    assert done.stdout.startswith("timeout: ")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("timout", "there is no fault timout, did you mean timeout?"),
        ("nosuch", "there is no fault nosuch; the nearest are not_authenticated, timeout and unknown_handle"),
        ('{"is_error":false}', "this holds no fault; paste its whole line, in quotes, or give it on stdin after -"),
        ("\x1b[31m", "there is no fault  [31m; the nearest are timeout, too_many and rate_limited"),
    ],
)
def test_what_is_no_code_is_told(word: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explain(word) == 2
    assert capsys.readouterr().err == f"tooldispatchd: {said}\n"


def test_it_imports_nothing_of_the_daemon() -> None:
    probe = "import sys, tooldispatchd.cli.explain; print(sys.modules.keys() & {'trio', 'msgspec', 'rich'})"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True).stdout == b"set()\n"


def test_the_document_has_the_same_pages() -> None:
    document = (Path(__file__).parent.parent.parent / "docs" / "faults.md").read_text(encoding="utf-8")
    assert [line[4:-1] for line in document.splitlines() if line.startswith("## ")] == list(read_pages())
    assert all(page.cause in document for page in read_pages().values())
