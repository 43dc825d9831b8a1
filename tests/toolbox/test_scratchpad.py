import json
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.toolbox.callers import Caller
from tooldispatchd.forked.python.context import InvalidInputError, ToolFailedError
from tooldispatchd.toolbox.scratchpad import MAX_BYTES, Action, Notes, act, scratchpad, shared_notes


def do(notes: Notes, action: Action, key: str | None = None, value: str | None = None) -> str:
    return act(notes, action, key, value, max_bytes=MAX_BYTES)


def test_a_note_is_written_read_changed_and_deleted() -> None:
    notes: Notes = {}
    assert do(notes, "set", "a", "one") == "Wrote a: 3 characters."
    assert do(notes, "get", "a") == "one"
    assert do(notes, "append", "a", " two") == "Changed a: 7 characters."
    assert do(notes, "append", "b", "x") == "Wrote b: 1 characters."
    assert do(notes, "list") == "a: 7 characters\nb: 1 characters"
    assert do(notes, "delete", "a") == "Deleted a: 7 characters."
    assert do(notes, "clear") == "Deleted 1 note."
    assert do(notes, "list") == "There are no notes."


@pytest.mark.parametrize("action", ["get", "delete"])
def test_a_note_that_is_not_there_is_an_answer(action: Action) -> None:
    notes = {"result": "1", "other": "2"}
    assert do(notes, action, "results") == "There is no note results; near it: result."
    assert do(notes, action, "xyz") == "There is no note xyz, of 2 notes."


@pytest.mark.parametrize(
    ("action", "key", "value", "field"),
    [
        ("get", None, None, "key"),
        ("delete", "", None, "key"),
        ("set", "a\nb", "x", "key"),
        ("set", "a", None, "value"),
        ("append", "a", None, "value"),
    ],
)
def test_what_an_action_lacks_is_refused_by_its_field(
    action: Action, key: str | None, value: str | None, field: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        do({}, action, key, value)
    assert caught.value.field == field


def test_no_more_notes_are_kept_than_are_allowed() -> None:
    notes = {str(number): "" for number in range(200)}
    with pytest.raises(ToolFailedError, match="delete one first"):
        do(notes, "set", "more", "")
    assert do(notes, "set", "7", "changed") == "Changed 7: 7 characters."


def test_no_more_text_is_kept_than_is_allowed() -> None:
    notes: Notes = {"a": "x" * 40_000}
    with pytest.raises(ToolFailedError, match=r"^all notes together would take 60,014 bytes, and 49,152 can be kept"):
        do(notes, "append", "a", "x" * 20_006)
    assert notes == {"a": "x" * 40_000}


def test_a_full_state_is_one_that_the_daemon_takes() -> None:
    notes: Notes = {}
    do(notes, "set", "a", "\x01" * 8_000)
    assert len(json.dumps(notes)) < 64 * 1024


KEYS = st.sampled_from(["a", "b", "ab", "ä"])
STEPS = st.tuples(st.sampled_from(["get", "set", "append", "delete", "list", "clear"]), KEYS, st.text(max_size=9))


@given(st.lists(STEPS))
def test_it_is_a_dict(steps: list[tuple[Action, str, str]]) -> None:
    notes: Notes = {}
    expected: dict[str, str] = {}
    for action, key, value in steps:
        answer = do(notes, action, key, value)
        match action:
            case "set":
                expected[key] = value
            case "append":
                expected[key] = expected.get(key, "") + value
            case "get" if key in expected:
                assert answer == expected[key]
            case "delete":
                expected.pop(key, None)
            case "clear":
                expected.clear()
            case _:
                pass
        assert notes == expected


def test_without_the_option_it_is_the_session_s(caller: Caller) -> None:
    ctx = caller.ctx(state={})
    scratchpad("set", ctx, "a", "one")
    assert ctx.state == {"a": "one"}


def test_with_it_all_sessions_of_a_profile_share_it(caller: Caller, tmp_path: Path) -> None:
    scratchpad("set", caller.ctx(shared=str(tmp_path)), "a", "one")
    assert scratchpad("get", caller.ctx(shared=str(tmp_path)), "a") == "one"


@pytest.mark.parametrize(("profile", "name"), [("../x", "..%2Fx.json"), ("..", "...json"), ("a b", "a%20b.json")])
def test_a_profile_has_a_file_in_that_directory(tmp_path: Path, profile: str, name: str) -> None:
    with shared_notes(tmp_path, profile) as notes:
        notes["a"] = "1"
    assert json.loads((tmp_path / name).read_text()) == {"a": "1"}


def test_what_is_refused_changes_no_file(caller: Caller, tmp_path: Path) -> None:
    scratchpad("set", caller.ctx(shared=str(tmp_path)), "a", "one")
    with pytest.raises(ToolFailedError, match="1,048,576 can be kept"):
        scratchpad("append", caller.ctx(shared=str(tmp_path)), "a", "x" * 1_048_576)
    assert scratchpad("get", caller.ctx(shared=str(tmp_path)), "a") == "one"


def test_what_is_no_file_of_notes_is_told(caller: Caller, tmp_path: Path) -> None:
    ctx = caller.ctx(shared=str(tmp_path))
    (tmp_path / f"{ctx.profile}.json").write_text('{"a":1}')
    with pytest.raises(ToolFailedError, match="cannot be read: Expected `str`"):
        scratchpad("list", ctx)
    with pytest.raises(ToolFailedError, match=r"^the shared notes cannot be used: No such file or directory$"):
        scratchpad("list", caller.ctx(shared=str(tmp_path / "nowhere")))


def test_only_the_notes_are_left_in_the_directory(tmp_path: Path) -> None:
    for text in ("1", "2"):
        with shared_notes(tmp_path, "p") as notes:
            notes["a"] = text
    assert [*tmp_path.iterdir()] == [tmp_path / "p.json"]


def append_lines(directory: Path) -> None:
    for _ in range(8):
        with shared_notes(directory, "p") as notes:
            act(notes, "append", "lines", "x", max_bytes=MAX_BYTES)


def test_what_several_calls_append_at_once_is_all_there(tmp_path: Path) -> None:
    processes = [get_context("spawn").Process(target=append_lines, args=(tmp_path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with shared_notes(tmp_path, "p") as notes:
        assert notes == {"lines": "x" * 16}
