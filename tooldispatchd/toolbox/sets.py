"""Which tools there are, by set: where each one's function is, and what its table says. Imports none of them."""

from pathlib import Path
from typing import Final, Literal

import msgspec

DOCS: Final = Path(__file__).with_name("doc")
WORKSPACE: Final = "workspace"


class Builtin(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: what its table would say if it were written out."""

    function: str
    """`module:function`, within this package."""
    title: str
    hint: str
    state: str | None = None
    """The state that it keeps between calls; tools of one name share it."""
    call_s: float | None = None
    stop_s: float = 0.0
    resident: bool = True
    """Whether its calls run in workers: not what runs what it is given, or takes its time."""
    mode: Literal["asked"] | None = None
    read_only: bool = False
    """Whether it changes nothing but what the session knows."""


class ToolSet(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of one set, which keys of `[toolbox.NAME]` they read, and what they are kept to unless that says else.

    In `bounds` the word `workspace` stands for the toolbox's. Tools of one `parent` are forked from one process.
    """

    tools: dict[str, Builtin]
    options: tuple[str, ...] = ()
    bounds: dict[str, object]
    parent: str = "toolbox"
    memory_part: int | None = None
    """Of the machine's memory each call may have the part with this divisor, unless its table says `memory`."""


_SHUT_IN: Final[dict[str, object]] = {"read": [], "write": [], "network": False}
_IN_WORKSPACE: Final[dict[str, object]] = {
    "cwd": WORKSPACE,
    "read": [WORKSPACE],
    "write": [WORKSPACE],
    "network": False,
}


# A command may ask for an hour, and has two seconds to end.
_COMMAND_S: Final = 3_610.0
_STOP_S: Final = 2.0

SETS: Final[dict[str, ToolSet]] = {
    "files": ToolSet(
        options=("guard",),
        bounds=_IN_WORKSPACE,
        tools={
            "read": Builtin(
                function="reading:read",
                title="Read a file",
                hint="Read a file before you change it, with read and not with a shell.",
                state="files",
                read_only=True,
            ),
            "write": Builtin(
                function="writing:write",
                title="Write a file",
                hint="Read an existing file before you write it; to change a part of it use edit.",
                state="files",
            ),
            "edit": Builtin(
                function="editing:edit",
                title="Edit a file",
                hint="edit replaces a text that stands exactly once; give enough lines around it.",
                state="files",
            ),
            "multi_edit": Builtin(
                function="editing:multi_edit",
                title="Edit a file in several places",
                hint="multi_edit makes several edits of one file, all or none.",
                state="files",
            ),
            "diff": Builtin(
                function="patching:diff",
                title="Apply a diff",
                hint="diff applies a unified diff to a file, whole or not at all.",
                state="files",
            ),
            "list": Builtin(
                function="listing:list_directory",
                title="List a directory",
                hint="list shows one directory; tree shows what is below it.",
                read_only=True,
            ),
            "tree": Builtin(
                function="listing:tree",
                title="Show a tree of directories",
                hint="Begin with tree where you do not know a project.",
                read_only=True,
            ),
            "glob": Builtin(
                function="listing:glob",
                title="Find files by name",
                hint="glob finds files by name, such as **/*.py.",
                read_only=True,
            ),
            "grep": Builtin(
                function="grep:grep",
                title="Search in files",
                hint="grep searches contents with a regular expression; use it, and not a shell's grep.",
                read_only=True,
            ),
            "json_read": Builtin(
                function="jsonfiles:json_read",
                title="Read a value of a JSON file",
                hint="json_read and json_write take a JSON Pointer, such as /scripts/test.",
                state="files",
                read_only=True,
            ),
            "json_write": Builtin(
                function="jsonfiles:json_write",
                title="Set a value of a JSON file",
                hint="json_write changes one value and leaves the rest of the file as it is.",
                state="files",
            ),
            "delete": Builtin(
                function="moving:delete",
                title="Delete a file or directory",
                hint="delete takes a directory with its contents only with recursive.",
                state="files",
            ),
            "move": Builtin(
                function="moving:move",
                title="Move or rename",
                hint="move and copy replace nothing without overwrite.",
                state="files",
            ),
            "copy": Builtin(
                function="moving:copy",
                title="Copy a file or directory",
                hint="copy takes directories too, and leaves links as links.",
                state="files",
            ),
        },
    ),
    "shell": ToolSet(
        options=("session",),
        bounds=_IN_WORKSPACE,
        # As much as a build of something large takes, and never all that the daemon and other agents need too.
        memory_part=4,
        tools={
            "bash": Builtin(
                function="bash:bash",
                title="Run a command",
                hint="bash tells the exit code with the output; set background for what runs long.",
                state="shell",
                mode="asked",
                call_s=_COMMAND_S,
                stop_s=_STOP_S,
                resident=False,
            ),
            "python": Builtin(
                function="interpreter:python",
                title="Run Python",
                hint="python shows what is printed, and the value of the last expression.",
                state="python",
                call_s=_COMMAND_S,
                stop_s=_STOP_S,
                resident=False,
            ),
        },
    ),
    # Its libraries are large, and every fork of a process that has them costs more.
    "web": ToolSet(
        options=("hosts", "deny_hosts", "private", "max_bytes", "search"),
        bounds={"read": [], "write": []},
        parent="web",
        tools={
            "fetch": Builtin(
                function="web.fetching:fetch",
                title="Fetch a page",
                hint="fetch reads one page or file of the web, as Markdown.",
                resident=False,
                read_only=True,
            ),
            "search": Builtin(
                function="web.search:search",
                title="Search the web",
                hint="search finds pages; fetch reads them.",
                resident=False,
                read_only=True,
            ),
        },
    ),
    "clock": ToolSet(
        bounds=_SHUT_IN,
        tools={
            "current_date": Builtin(
                function="clock:current_date",
                title="Date and time",
                hint="Ask current_date where the date matters; you cannot know it.",
                read_only=True,
            ),
            "sleep": Builtin(
                function="clock:sleep",
                title="Wait",
                hint="sleep waits up to an hour.",
                call_s=3_610.0,
                resident=False,
            ),
        },
    ),
    "look": ToolSet(
        bounds=_IN_WORKSPACE | {"write": []},
        tools={
            "introspect": Builtin(
                function="look:introspect",
                title="Look at a code base",
                hint='introspect shows the structure of the code base, and with "all" its contents.',
                read_only=True,
            ),
            "environment": Builtin(
                function="look:environment",
                title="Look at the machine",
                hint="environment tells the system, the programs and the limits that there are.",
                read_only=True,
            ),
        },
    ),
    "scratchpad": ToolSet(
        options=("shared",),
        bounds=_SHUT_IN,
        tools={
            "scratchpad": Builtin(
                function="scratchpad:scratchpad",
                title="Keep notes",
                hint="Keep in the scratchpad what you will need later.",
                state="scratchpad",
            ),
        },
    ),
}


def keeps_state(set_name: str, options: dict[str, object]) -> bool:
    """Whether the tools of a set keep their state, with these options."""
    match set_name:
        case "files":
            return options.get("guard") != "off"
        case "shell":
            return options.get("session") is True
        case _:
            return "shared" not in options


def doc_of(tool: str) -> str | None:
    """The full text of a tool."""
    path = DOCS / f"{tool}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else None
