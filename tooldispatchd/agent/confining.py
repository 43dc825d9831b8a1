"""What a program is started under, as a profile's agents call it: its own bounds, the profile's, the machine's."""

import pwd

from tooldispatchd.agent.policies import policy_of
from tooldispatchd.agent.program import Program
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.catalog.arguments import Feed, Output
from tooldispatchd.catalog.confined import ConfinedSpec
from tooldispatchd.catalog.confinement import confinement_of
from tooldispatchd.catalog.enforcement import FOR_FUNCTIONS, MEANS, Enforced, enforce
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.specs import ProcessSpec, ToolSpec
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.providers.process.limits import Limits
from tooldispatchd.providers.process.running import Command


def program_of_tool(runtime: Runtime, tool: DeclaredTool, profile: Profile) -> Program:
    """The program of a tool with `command`, as agents of `profile` call it."""
    spec = tool.spec
    assert spec.command is not None
    # In the mode `args` these are templates, of which each call makes its own.
    args = () if tool.feed.mode == "args" else spec.args
    return _program(runtime, spec, profile, argv=(*spec.command, *args), feed=tool.feed, output=tool.printed)


def program_of_agent(runtime: Runtime, name: str, profile: Profile) -> Program:
    """The program of an agent process: its own command, else `agent_command` with the path of its spec."""
    process = runtime.catalog.processes[name]
    spec = process.spec
    argv = spec.command or (*(runtime.catalog.config.agent_command or ()), runtime.agent_specs[name])
    args = () if process.feed.mode == "args" else spec.args
    is_caller = name in runtime.catalog.profiles and (spec.tools is not None or spec.mcp is not None)
    own = runtime.profile_keys.key_below(name, profile) if is_caller else None
    whole = (*argv, *args)
    return _program(runtime, spec, profile, argv=whole, feed=process.feed, output=process.output, own=own)


def enforced_for(runtime: Runtime, spec: ConfinedSpec, profile: Profile) -> Enforced:
    """What a program with this table is kept to under `profile`, as far as the machine can."""
    asked = confinement_of(spec).tightened(profile.confinement)
    is_function = isinstance(spec, ToolSpec) and spec.python is not None
    return enforce(asked, runtime.catalog.enforceable, FOR_FUNCTIONS if is_function else MEANS)


def home_of(enforced: Enforced) -> dict[str, str]:
    """Whose the program is: what a login as another user than the daemon's would say of it."""
    user = enforced.confinement.user
    try:
        account = None if user is None else pwd.getpwuid(user)
    except KeyError:
        account = None
    if account is None:
        return {}
    names = dict.fromkeys(("USER", "LOGNAME"), account.pw_name)
    return {"HOME": account.pw_dir, "SHELL": account.pw_shell, **names}


def max_output_bytes(runtime: Runtime, enforced: Enforced) -> int:
    """The longest answer, in bytes."""
    limit = runtime.limits.max_content_bytes
    own = enforced.confinement.output_bytes
    return limit if own is None else min(limit, own)


def _program(
    runtime: Runtime,
    spec: ToolSpec | ProcessSpec,
    profile: Profile,
    *,
    argv: tuple[str, ...],
    feed: Feed,
    output: Output,
    own: str | None = None,
) -> Program:
    enforced = enforced_for(runtime, spec, profile)
    kept = enforced.confinement
    command = Command(
        argv=argv,
        env=home_of(enforced) | spec.env,
        cwd=spec.cwd,
        max_output_bytes=max_output_bytes(runtime, enforced),
        max_content_bytes=runtime.limits.max_content_bytes,
        feed=feed,
        output=output,
        limits=Limits(kept.cpu_s, kept.memory, kept.processes, kept.files, kept.file_size),
        is_wrapped=enforced.means == "bubblewrap",
    )
    return Program(
        command,
        policy_of(enforced),
        unenforced=tuple(enforced.lacking),
        profile=own,
        reuse=spec.reuse,
        home={"HOME": spec.env["HOME"]} if "HOME" in spec.env else {},
        files=tuple(path for path in runtime.agent_specs.values() if path in argv),
    )
