"""Each MUST of the protocol has its anchor, and each anchor a transcript or a test that fails where it is not kept.

A transcript names its anchors in its head (`musts`), a test in its text as `[M1]`, or here, where it belongs to
another layer and says in its name what it shows.
"""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from protocol.conformance.run import read_transcript, transcripts

ROOT: Final = Path(__file__).parent.parent
# Where anchors stand: the protocol, and what this daemon promises beside it.
DOCUMENTS: Final = (
    *((ROOT / "protocol").glob("*.md")),
    *(ROOT / "protocol" / "extensions").glob("*.md"),
    *(ROOT / "docs" / name for name in ("command.md", "mcp.md", "programs.md")),
)
ANCHOR: Final = re.compile(r"\[(M[0-9]+)\]")
# Where the words are explained, which is no rule.
EXPLAINED: Final = re.compile(r"^MUST, MUST NOT, .*?\n\n", re.MULTILINE | re.DOTALL)

PROVEN: Final[dict[str, tuple[str, ...]]] = {
    "M7": ("tests/wire/test_channel.py::test_each_line_of_the_daemon_is_one_line_whatever_stands_in_it",),
    "M15": ("tests/daemon/test_ends.py::test_a_closed_channel_cancels_what_runs",),
    "M16": (
        "tests/daemon/test_ends.py::test_lines_that_a_vanished_agent_left_are_not_executed",
        "tests/daemon/test_attacks.py::test_on_pipes_a_line_that_a_vanished_agent_left_is_not_executed",
    ),
    "M17": ("tests/daemon/test_daemon.py::test_a_pipe_that_nobody_reads_any_more_cancels_what_runs",),
    "M18": ("tests/agent/test_many.py::test_an_agent_over_its_bounds_leaves_the_others_theirs",),
    "M23": ("tests/daemon/test_attacks.py::test_a_connection_turned_away_that_has_left_already_harms_nobody",),
    "M24": ("tests/front/test_front.py::test_reading_stops_while_the_backlog_is_over_its_cap_and_goes_on_after",),
    "M25": ("tests/front/test_front.py::test_a_channel_that_never_reads_is_dropped_after_its_time",),
    "M26": (
        "tests/daemon/places/test_doors.py::test_a_stranger_at_an_abstract_socket_is_told_nothing_and_turned_away",
    ),
    "M28": ("tests/agent/session/test_entrance.py::test_no_protected_profile_is_opened_without_hello",),
    "M29": ("tests/daemon/places/test_doors.py::test_a_place_admits_the_profiles_that_it_names_alone",),
    "M30": ("tests/agent/session/test_entrance.py::test_every_refusal_is_the_same_fault",),
    "M32": ("tests/agent/session/test_entrance.py::test_no_fault_bears_a_token",),
    "M33": ("tests/daemon/places/test_doors.py::test_a_pair_opens_the_profile_of_its_place",),
    "M35": ("tests/agent/tools/test_servers.py::test_declared_tools_are_answered_while_servers_open",),
    "M36": ("tests/agent/tools/test_servers.py::test_requests_during_the_opening_wait_and_are_then_answered",),
    "M47": ("tests/agent/tools/test_servers.py::test_requests_that_waited_get_the_fault_of_a_refused_hello",),
    "M53": ("tests/agent/test_schedules.py::test_every_request_has_exactly_one_answer_in_any_order_of_events",),
    "M64": ("tests/agent/tools/test_servers.py::test_the_deadline_of_a_call_covers_the_opening",),
    "M66": ("tests/providers/mcp/test_progress.py::test_a_traceparent_is_passed_on",),
    "M68": ("tests/providers/mcp/test_content.py::test_a_tools_own_error_is_passed_on_unchecked",),
    "M71": (
        "tests/wire/test_session.py::test_an_update_is_told_only_to_who_asked_and_only_while_the_call_is_in_flight",
    ),
    "M72": (
        "tests/providers/test_process_updates.py::test_without_updates_there_is_neither_the_variable_nor_the_descriptor",
    ),
    "M78": ("tests/wire/test_questions.py::test_an_agent_is_asked_only_so_much_at_once",),
    "M83": ("tests/daemon/test_attacks.py::test_each_request_after_bye_is_answered",),
    "M87": ("tests/calls/test_jobs.py::test_an_unread_result_is_never_dropped_and_a_new_job_is_refused_instead",),
    "M88": ("tests/agent/tools/test_builtins.py::test_jobs_are_read_and_stopped_while_every_place_is_taken",),
    "M95": (
        "tests/providers/mcp/test_content.py::test_content_of_a_tool_without_an_output_schema",
        "tests/providers/mcp/test_content.py::test_structured_content_that_breaks_its_schema_is_invalid_output",
    ),
    "M96": ("tests/providers/mcp/test_content.py::test_a_tools_own_error_is_passed_on_unchecked",),
    "M97": ("tests/wire/test_faults.py::test_an_extra_never_stands_in_the_place_of_a_field_that_every_fault_has",),
    "M98": ("tests/wire/test_decode.py::test_no_fault_quotes_the_line",),
    "M100": ("tests/agent/tools/test_servers.py::test_a_deadline_of_the_agent_passes_and_the_connection_still_works",),
    "M103": ("tests/agent/session/test_host.py::test_a_defect_at_the_start_of_a_call_is_that_call_s_fault_alone",),
    "M104": ("tests/config/test_configuration.py::test_a_wrong_configuration_gets_its_exact_report",),
    "M105": (
        "tests/daemon/test_ends.py::test_a_running_call_has_its_grace_and_a_new_one_gets_draining",
        "tests/daemon/test_ends.py::test_a_request_after_the_grace_gets_draining_while_the_session_is_torn_down",
    ),
    "M106": ("tests/daemon/test_ends.py::test_a_call_that_outlives_the_grace_is_answered_and_ended",),
    "M107": ("tests/daemon/test_ends.py::test_an_idle_daemon_ends_at_a_signal_with_exit_code_0",),
    "M108": ("tests/cli/test_call.py::test_an_error_is_printed_and_the_exit_code_is_1",),
    "M109": ("tests/cli/test_help.py::test_a_mistake_of_usage_has_exit_code_2",),
    "M110": ("tests/cli/test_call.py::test_a_socket_that_is_not_there_has_exit_code_3",),
    "M114": ("tests/runner/test_relay.py::test_a_grandchild_that_holds_everything_does_not_keep_the_agent_alive",),
    "M115": ("tests/cli/test_run.py::test_a_token_of_the_environment_does_not_reach_the_agent",),
    "M116": ("tests/cli/test_run.py::test_the_tools_stand_in_a_private_file",),
    "M117": ("tests/runner/test_wiring.py::test_requests_go_to_the_daemon_and_everything_else_past_it",),
    "M118": ("tests/agent/test_fair.py::test_a_flood_turns_down_what_asks_and_never_what_ends",),
    "M119": ("tests/agent/test_fair.py::test_a_result_that_cannot_be_sent_is_not_read_by_that",),
    "M120": ("tests/agent/test_fair.py::test_an_agent_beside_msg_is_whose_request_it_is",),
    "M125": (
        "tests/catalog/forms/test_form.py::test_every_object_that_a_schema_admits_is_admitted_as_it_is_shown",
        "tests/catalog/forms/test_form.py::test_every_value_of_a_type_is_admitted_as_it_is_shown",
    ),
    "M128": (
        "tests/catalog/test_spelling.py::test_every_spelling_is_one_that_the_provider_takes",
        "tests/catalog/test_spelling.py::test_no_two_names_of_a_session_have_one_spelling_in_whatever_order_they_come",
    ),
    "M142": ("tests/runner/test_tools_file.py::test_the_file_has_the_tools_in_the_form_that_run_was_asked_for",),
    "M143": (
        "tests/providers/mcp/test_content.py::test_a_declared_type_takes_structured_content_and_else_a_text_that_is_json",
        "tests/providers/mcp/test_content.py::test_for_the_type_string_a_text_is_the_value_unless_it_is_a_string_in_json",
    ),
    "M111": ("tests/client/test_reach.py::test_the_environment_says_where_the_socket_is",),
    "M155": (
        "tests/catalog/forms/test_plain.py::test_what_the_machine_cannot_enforce_is_shown_where_there_is_anything",
        "tests/agent/programs/test_confining.py::test_agents_are_shown_what_the_machine_cannot_keep_a_tool_to",
    ),
    "M156": (
        "tests/providers/process/test_running.py::test_an_exit_code_other_than_0_is_told_even_with_a_value",
        "tests/providers/python/test_endings.py::test_half_an_answer_is_none",
    ),
    "M200": ("tests/daemon/test_stopping.py::test_a_program_is_asked_to_end_and_then_killed",),
    "M201": ("tests/daemon/test_stopping.py::test_a_second_cancel_leaves_no_time",),
    "M157": (
        "tests/children/test_endings.py::test_a_limit_that_the_tool_does_not_have_is_never_named",
        "tests/providers/python/test_endings.py::test_a_limit_that_the_tool_has_not_is_never_named",
    ),
}


def rules() -> list[str]:
    """The paragraphs, list items and cells, without the examples."""
    texts = (EXPLAINED.sub("", path.read_text(encoding="utf-8")) for path in DOCUMENTS)
    text = re.sub(r"^```.*?^```$", "", "\n\n".join(texts), flags=re.MULTILINE | re.DOTALL)
    return re.split(r"\n\n|\n- |\n\| |\n[0-9]+\. ", text)


def anchors() -> list[str]:
    return [anchor for rule in rules() for anchor in ANCHOR.findall(rule)]


@cache
def named() -> dict[str, set[str]]:
    """Who names each anchor: transcripts by their files, tests by theirs."""
    found: dict[str, set[str]] = {}
    for path in transcripts():
        for anchor in read_transcript(path).musts:
            found.setdefault(anchor, set()).add(path.name)
    for path in (ROOT / "tests").rglob("*.py"):
        for anchor in ANCHOR.findall(path.read_text(encoding="utf-8")) if path != Path(__file__) else ():
            found.setdefault(anchor, set()).add(path.name)
    for anchor, tests in PROVEN.items():
        found.setdefault(anchor, set()).update(tests)
    return found


def test_every_must_has_an_anchor_of_its_own() -> None:
    lacking = [rule for rule in rules() if len(re.findall(r"\bMUST\b", rule)) != len(ANCHOR.findall(rule))]
    assert lacking == []


def test_no_anchor_stands_twice() -> None:
    assert [anchor for anchor, count in Counter(anchors()).items() if count > 1] == []


def test_every_anchor_is_named_by_a_transcript_or_a_test() -> None:
    assert [anchor for anchor in anchors() if anchor not in named()] == []


def test_nobody_names_an_anchor_that_there_is_not() -> None:
    assert {anchor: who for anchor, who in named().items() if anchor not in anchors()} == {}


@pytest.mark.parametrize("test", sorted({test for tests in PROVEN.values() for test in tests}))
def test_a_test_that_is_named_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
