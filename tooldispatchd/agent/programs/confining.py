"""The bounds of a program as a profile's agents call it: its own, the profile's, and what the machine can enforce."""

from msgspec.structs import replace

from tooldispatchd.agent.programs.programs import Program
from tooldispatchd.agent.setup import Setup
from tooldispatchd.catalog.arguments import JSON_FEED, Feed
from tooldispatchd.catalog.confinedspec import ConfinedSpec
from tooldispatchd.catalog.confinement import Confinement, confinement_of
from tooldispatchd.catalog.enforcement import FOR_FUNCTIONS, MEANS, Enforced, enforce
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.specs import McpSpec, ProcessSpec, ToolSpec
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.children.endings import Limits
from tooldispatchd.children.owners import home_of, owner_of
from tooldispatchd.forked.policy import Policy
from tooldispatchd.providers.process.running import SUCCESS, Command


def program_of_tool(setup: Setup, tool: DeclaredTool, profile: Profile) -> Program:
    """The program of a tool with `command`, as agents of `profile` call it."""
    spec = tool.spec
    assert spec.command is not None
    # In the mode `args` these are templates, of which each call makes its own.
    args = () if tool.feed.mode == "args" else spec.args
    argv = (*spec.command, *args)
    return _program(setup, spec, profile, argv=argv, feed=tool.feed, output=tool.printed)


def program_of_agent(setup: Setup, name: str, profile: Profile) -> Program:
    """The program of an agent process: its own command, else `agent_command` with the path of its spec."""
    process = setup.catalog.processes[name]
    spec = process.spec
    argv = spec.command or (*(setup.catalog.config.agent_command or ()), setup.agent_specs[name])
    args = () if process.feed.mode == "args" else spec.args
    is_caller = spec.is_profile
    own = setup.profile_keys.key_below(name, profile) if is_caller else None
    whole = (*argv, *args)
    program = _program(setup, spec, profile, argv=whole, feed=process.feed, output=process.output, own=own)
    return replace(program, shares_streams=True) if spec.ports == "stdio" else program


def program_of_server(setup: Setup, spec: McpSpec, profile: Profile) -> Program | None:
    """The program of a server with `command`, as agents of `profile` use it; None for one that has a URL."""
    if spec.command is None:
        return None
    argv = (spec.command, *spec.args)
    return _program(setup, spec, profile, argv=argv, feed=JSON_FEED, output=Output.JSON)


def enforced_for(setup: Setup, spec: ConfinedSpec, profile: Profile) -> Enforced:
    """The bounds of a program with this table under `profile`, as far as the machine can enforce them."""
    is_function = isinstance(spec, ToolSpec) and spec.python is not None
    return enforce(asked_for(spec, profile), setup.catalog.enforceable, FOR_FUNCTIONS if is_function else MEANS)


def asked_for(spec: ConfinedSpec, profile: Profile) -> Confinement:
    """The bounds of a program with this table under `profile`, whether or not the machine can enforce them."""
    asked = confinement_of(spec)
    # A server for agents of several profiles cannot be kept to the bounds of the first of these.
    is_shared = isinstance(spec, McpSpec) and spec.shared
    return asked if is_shared else asked.tightened(profile.confinement)


def max_output_bytes(setup: Setup, enforced: Enforced) -> int:
    """The longest answer, in bytes."""
    limit = setup.limits.max_content_bytes
    own = enforced.confinement.output_bytes
    return limit if own is None else min(limit, own)


def _program(
    setup: Setup,
    spec: ToolSpec | ProcessSpec | McpSpec,
    profile: Profile,
    *,
    argv: tuple[str, ...],
    feed: Feed,
    output: Output,
    own: str | None = None,
) -> Program:
    enforced = enforced_for(setup, spec, profile)
    kept = enforced.confinement
    codes = SUCCESS if isinstance(spec, McpSpec) or spec.exit_codes is None else spec.exit_codes
    command = Command(
        argv=argv,
        env=home_of(kept.user) | spec.env,
        cwd=spec.cwd,
        max_output_bytes=max_output_bytes(setup, enforced),
        max_content_bytes=setup.limits.max_content_bytes,
        feed=feed,
        output=output,
        media_type=spec.output_mode if output is Output.FILE and not isinstance(spec, McpSpec) else "",
        exit_codes=None if isinstance(codes, str) else frozenset(codes),
        stop_s=0.0 if isinstance(spec, McpSpec) else spec.stop_s,
        limits=Limits(kept.cpu_s, kept.memory, kept.processes, kept.files, kept.file_size),
        is_wrapped=enforced.means == "bubblewrap",
    )
    return Program(
        command,
        policy_of(enforced),
        unenforced=tuple(enforced.lacking),
        profile=own,
        home={"HOME": spec.env["HOME"]} if "HOME" in spec.env else {},
        files=tuple(path for path in setup.agent_specs.values() if path in argv),
    )


def policy_of(enforced: Enforced) -> Policy | None:
    """The policy that enforces it; None where nothing is asked that takes one."""
    asked = enforced.confinement
    owner = owner_of(asked.user, asked.group)
    policy = Policy(
        cpu_s=asked.cpu_s,
        memory=asked.memory,
        processes=asked.processes,
        files=asked.files,
        file_size=asked.file_size,
        nice=asked.nice,
        uid=owner.uid,
        gid=owner.gid,
        groups=owner.groups,
        network=asked.network,
        read=asked.read,
        write=asked.write,
        means=enforced.means or "landlock",
    )
    return None if policy == Policy() else policy
