"""Resources and prompts as tools: what they take, and how they describe themselves."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tooldispatchd.providers.mcp.messages import MAX_CURSOR_CHARS
from tooldispatchd.providers.mcp.resources import (
    MAX_ARGUMENTS,
    MAX_DESCRIPTION_CHARS,
    MAX_PAGE_BYTES,
    MAX_PROMPTS,
    Prompt,
    PromptArgument,
    read_prompts,
    resource_tools,
)

REVIEW = Prompt("review", "Review code.", (PromptArgument("code", "The code", True), PromptArgument("style")))


def names(*, has_resources: bool, prompts: list[Prompt] | None) -> list[str]:
    return [tool.name for tool in resource_tools(has_resources=has_resources, prompts=prompts)]


def prompts_in(result: object) -> list[Prompt]:
    page = read_prompts(Raw(msgspec.json.encode(result)))
    assert page is not None
    return page[0]


# --- the tools ---


def test_a_server_has_tools_for_what_it_has() -> None:
    assert names(has_resources=True, prompts=[REVIEW]) == ["read_resource", "list_resources", "get_prompt"]
    assert names(has_resources=True, prompts=None) == ["read_resource", "list_resources"]
    assert names(has_resources=False, prompts=[REVIEW]) == ["get_prompt"]
    assert names(has_resources=False, prompts=[]) == []


@pytest.mark.parametrize(
    ("index", "arguments", "is_valid"),
    [
        (0, {"uri": "file:///a"}, True),
        (0, {}, False),
        (0, {"uri": ""}, False),
        (0, {"uri": "a", "_meta": {}}, False),
        (1, {}, True),
        (1, {"cursor": "2"}, True),
        (1, {"cursor": 2}, False),
        (2, {"name": "review"}, True),
        (2, {"name": "review", "arguments": {"code": "x"}}, True),
        (2, {"name": "review", "arguments": {"code": 1}}, False),
        (2, {"arguments": {}}, False),
    ],
)
def test_a_tool_takes_the_parameters_of_its_request(index: int, arguments: object, *, is_valid: bool) -> None:
    tool = resource_tools(has_resources=True, prompts=[REVIEW])[index]
    assert tool.input.is_valid(arguments) is is_valid


def test_each_tool_is_the_request_that_it_stands_for() -> None:
    tools = resource_tools(has_resources=True, prompts=[REVIEW])
    assert [tool.method for tool in tools] == ["resources/read", "resources/list", "prompts/get"]


def test_servers_with_equal_prompts_share_their_tools() -> None:
    first = resource_tools(has_resources=True, prompts=[REVIEW])
    again = resource_tools(has_resources=True, prompts=[REVIEW])
    assert [one is other for one, other in zip(first, again, strict=True)] == [True, True, True]
    other = resource_tools(has_resources=False, prompts=[Prompt("other")])[0]
    assert other is not first[2]


def test_an_unknown_prompt_is_told_with_those_that_there_are() -> None:
    (tool,) = resource_tools(has_resources=False, prompts=[REVIEW, Prompt("hello")])
    assert tool.input.is_valid({"name": "hello"})
    assert not tool.input.is_valid({"name": "hallo"})
    (violation,) = tool.input.violations({"name": "hallo"})
    assert "hello" in violation.message


def test_a_list_of_prompts_that_may_have_been_cut_admits_every_name() -> None:
    (tool,) = resource_tools(has_resources=False, prompts=[Prompt(f"p{number}") for number in range(MAX_PROMPTS)])
    assert tool.input.is_valid({"name": "another"})


def test_the_description_lists_the_prompts_with_their_arguments() -> None:
    (tool,) = resource_tools(has_resources=False, prompts=[REVIEW, Prompt("hello")])
    assert tool.description.splitlines()[1:] == ["- review(code (The code), style?): Review code.", "- hello()"]


def test_the_description_is_bounded_and_says_what_is_left_out() -> None:
    prompts = [Prompt(f"p{number:03}", "x" * 290) for number in range(MAX_PROMPTS)]
    (tool,) = resource_tools(has_resources=False, prompts=prompts)
    lines = tool.description.splitlines()
    assert len(tool.description) < MAX_DESCRIPTION_CHARS + 200
    assert lines[-1] == f"- and {MAX_PROMPTS - (len(lines) - 2)} more"


# --- the list of prompts ---


def test_a_page_of_prompts_is_read() -> None:
    page: dict[str, object] = {
        "prompts": [
            {
                "name": "review",
                "title": "Review",
                "description": "Review\n\n code.",
                "arguments": [{"name": "code", "description": "The code", "required": True}, {"name": "style"}],
            },
            {"name": "hello", "arguments": None},
        ],
        "nextCursor": "2",
    }
    assert read_prompts(Raw(msgspec.json.encode(page))) == ([REVIEW, Prompt("hello")], "2")


@pytest.mark.parametrize("cursor", [None, ""])
def test_a_last_page_has_no_cursor(cursor: str | None) -> None:
    page: dict[str, object] = {"prompts": [], "nextCursor": cursor}
    assert read_prompts(Raw(msgspec.json.encode(page))) == ([], None)


def test_an_empty_cursor_of_2026_07_28_is_one() -> None:
    page: dict[str, object] = {"prompts": [], "nextCursor": ""}
    assert read_prompts(Raw(msgspec.json.encode(page)), is_modern=True) == ([], "")


def test_a_cursor_that_is_too_long_to_send_back_ends_the_list() -> None:
    page: dict[str, object] = {"prompts": [], "nextCursor": "x" * (MAX_CURSOR_CHARS + 1)}
    assert read_prompts(Raw(msgspec.json.encode(page))) == ([], None)


@pytest.mark.parametrize(
    "prompt", [7, {}, {"name": ""}, {"name": "a\nb"}, {"name": "x" * 129}, {"name": "a", "arguments": {}}]
)
def test_a_prompt_that_cannot_be_read_is_left_out(prompt: object) -> None:
    assert prompts_in({"prompts": [prompt, {"name": "ok"}]}) == [Prompt("ok")]


def test_what_a_server_says_of_a_prompt_is_cut_to_a_printable_sentence() -> None:
    (prompt,) = prompts_in({"prompts": [{"name": "a", "description": "\x1b[1m " + "x" * 1000}]})
    assert prompt.description.startswith("[1m xxx")
    assert prompt.description.endswith("x…")
    assert len(prompt.description) == 300


def test_a_page_holds_so_many_prompts_and_a_prompt_so_many_arguments() -> None:
    arguments = [{"name": f"a{number}"} for number in range(MAX_ARGUMENTS + 1)]
    prompts = prompts_in({"prompts": [{"name": "p", "arguments": arguments}] * (MAX_PROMPTS + 1)})
    assert (len(prompts), len(prompts[0].arguments)) == (MAX_PROMPTS, MAX_ARGUMENTS)


@pytest.mark.parametrize(
    "page",
    [b"null", b"{}", b'{"prompts":{}}', b'{"prompts":[]', b'{"prompts":[],"x":"' + b"x" * MAX_PAGE_BYTES + b'"}'],
)
def test_a_page_that_cannot_be_read_is_none(page: bytes) -> None:
    assert read_prompts(Raw(page)) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_a_page_or_none(page: bytes) -> None:
    assert isinstance(read_prompts(Raw(page)), tuple | None)
