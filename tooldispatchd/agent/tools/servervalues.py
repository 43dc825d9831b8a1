"""The value that the MCP client is made from, of a server as sessions of a profile use it."""

from typing import Final

from tooldispatchd.agent.programs.confining import program_of_server
from tooldispatchd.agent.programs.programs import Program
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.catalog.profiles import Profile, ServerUse
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.catalog.specs import OAuthSpec
from tooldispatchd.catalog.workspaces import Workspace
from tooldispatchd.http.reach import OAuth, Reach, reach_by
from tooldispatchd.providers.mcp.server import Server

# A line of a server holds an answer and its envelope.
ENVELOPE_BYTES: Final = 1024 * 1024


def value_of(
    runtime: Runtime,
    binding: Binding,
    use: ServerUse | None,
    *,
    needed: tuple[str, ...],
    profile: Profile,
    workspace: Workspace | None,
) -> tuple[Server, Program | None]:
    """Make the value and the program of a server, as a session of `profile` with this workspace has it.

    It is used whole or in part, and `needed` for its declared tools. The value of a shared server says nothing of the
    session, so that those of all sessions are equal, but whether its resources are offered.
    """
    spec = binding.spec
    program = program_of_server(runtime.setup, spec, profile)
    program = None if program is None else program.at(workspace)
    limits = runtime.setup.limits
    is_whole = use is not None and use.only is None
    # A server that is not offered needs no more than the tools that declared ones are made of.
    whitelist = spec.tools if use is not None or spec.shared else ()
    if spec.shared:
        # All of its tools that declared tools are made of, whichever of these the session has.
        made = [tool.server for tool in runtime.setup.catalog.tools.values() if tool.server is not None]
        needed = tuple(dict.fromkeys(tool.tool for tool in made if tool.binding == binding.name))
    offered = runtime.setup.offers_resources(profile.name)
    max_content_bytes = limits.max_content_bytes if program is None else program.command.max_output_bytes
    value = Server(
        name=binding.name,
        argv=() if spec.command is None else (spec.command, *spec.args),
        reach=reach_of(binding),
        transport=spec.transport,
        env=spec.env if program is None else program.command.env,
        cwd=spec.cwd if program is None else program.command.cwd,
        held=None if program is None else program.held,
        whitelist=whitelist,
        allow=spec.allow if use is not None or spec.shared else None,
        declared=needed,
        deny=spec.deny,
        prefixes=binding.prefixes if spec.deny else (),
        protocol=spec.protocol,
        handshake_s=spec.handshake_s or limits.handshake_s,
        call_s=spec.call_s or limits.call_s,
        dies_of_timeouts=spec.on_timeout != "cancel" and not spec.shared,
        resources=bool(is_whole and offered if spec.mcp_resources is None else spec.mcp_resources),
        traced=spec.trace,
        told=spec.meta,
        repairs=spec.repair is not False,
        warns_of_outputs=spec.output_check == "warn",
        max_call_s=spec.max_call_s if spec.reset_timeout_on_progress else None,
        max_line_bytes=max_content_bytes + ENVELOPE_BYTES,
        max_content_bytes=max_content_bytes,
        policy=None if program is None else program.policy,
    )
    return value, program


def reach_of(binding: Binding) -> Reach | None:
    """How a server behind a URL is reached; None for a command."""
    spec, credentials = binding.spec, binding.credentials
    if spec.url is None:
        return None
    oauth: OAuth | None = None
    if spec.auth == "oauth":
        wanted = spec.oauth or OAuthSpec()
        oauth = OAuth(
            grant=wanted.grant,
            client_id=wanted.client_id,
            client_secret=credentials.client_secret,
            client_metadata_url=wanted.client_metadata_url,
            private_key=credentials.private_key,
            algorithm=wanted.algorithm,
            scopes=wanted.scopes,
            redirect_port=wanted.redirect_port,
        )
    return reach_by(spec, spec.url, credentials.headers, oauth)
