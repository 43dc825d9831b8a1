"""What the MCP client is told of a server: the binding, the limits, and what this session wants of it, as one value."""

from typing import Final

from tooldispatchd.agent.programs.program import Program
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.catalog.profiles import Profile, ServerUse
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.catalog.specs import OAuthSpec
from tooldispatchd.providers.mcp.server import OAuth, Reach, Server

# A line of a server holds an answer and its envelope.
ENVELOPE_BYTES: Final = 1024 * 1024


def server_value(
    runtime: Runtime,
    binding: Binding,
    use: ServerUse | None,
    *,
    needed: tuple[str, ...],
    profile: Profile,
    program: Program | None,
) -> Server:
    """The server as a session of `profile` uses it: whole or in part, and `needed` for its declared tools.

    That of a shared server says nothing of the session, so that those of all sessions are equal, but whether its
    resources are offered. `program` is that of a server with a command.
    """
    spec = binding.spec
    limits = runtime.limits
    is_whole = use is not None and use.only is None
    # What is not offered needs no more than the tools that declared ones are made of.
    whitelist = spec.tools if use is not None or spec.shared else ()
    max_content_bytes = limits.max_content_bytes if program is None else program.command.max_output_bytes
    return Server(
        name=binding.name,
        argv=() if spec.command is None else (spec.command, *spec.args),
        reach=reach_of(binding),
        env=spec.env if program is None else program.command.env,
        cwd=spec.cwd,
        whitelist=whitelist,
        declared=_declared(runtime, binding.name) if spec.shared else needed,
        deny=spec.deny,
        protocol=spec.protocol,
        handshake_s=spec.handshake_s or limits.handshake_s,
        call_s=spec.call_s or limits.call_s,
        dies_of_timeouts=spec.on_timeout != "cancel" and not spec.shared,
        resources=spec.mcp_resources or (is_whole and runtime.offers_resources(profile.name)),
        traced=spec.trace,
        max_line_bytes=max_content_bytes + ENVELOPE_BYTES,
        max_content_bytes=max_content_bytes,
        policy=None if program is None else program.policy,
    )


def _declared(runtime: Runtime, binding: str) -> tuple[str, ...]:
    """All tools of a server that any declared one is made of."""
    tools = [tool.server for tool in runtime.catalog.tools.values() if tool.server is not None]
    return tuple(dict.fromkeys(tool.tool for tool in tools if tool.binding == binding))


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
    return Reach(
        url=spec.url,
        transport=spec.transport,
        headers=credentials.headers,
        oauth=oauth,
        ca=spec.ca,
        cert=spec.cert,
        key=spec.key,
        hosts=spec.hosts,
        private=spec.private,
    )
