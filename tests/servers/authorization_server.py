"""An OAuth authorization server, and an MCP endpoint that wants its tokens: both for real, small, and on one origin.

It runs in the test's own nursery. It checks what a client has to do (PKCE, redirect URIs, resources, assertions) and
keeps what it was sent, so that a test can see what went where. Its fields are knobs.
"""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import h11
import jwt
import trio

Reply = tuple[int, dict[str, str], bytes]


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))


@dataclass
class Recorder:
    """An origin that answers everything in one way, and keeps what came."""

    reply: Reply = (404, {}, b"")
    requests: list[Request] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.reply

    @property
    def received(self) -> str:
        """All that came, as text in which a secret can be looked for."""
        return repr(self.requests)


class OAuthServer:
    """The authorization server and the MCP server `/mcp` of one origin."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        # --- knobs ---
        self.expires_in: int | None = 3600
        self.rotates = True
        self.needed_scope = "tools"
        self.challenge_scope: str | None = None
        self.metadata: dict[str, object] = {}
        self.resource_metadata: dict[str, object] = {}
        self.shows_metadata_in_challenge = True
        self.is_oidc = False
        self.replies: dict[str, Reply] = {}
        self.hangs: set[str] = set()
        self.gates: dict[str, trio.Event] = {}
        self.iss: str | None = "right"
        self.denies = False
        self.public_keys: dict[str, tuple[str, str]] = {}
        self.secrets: dict[str, str] = {}
        self.granted_scope: str | None = None
        self.resource: str | None = None
        self.wants_revision = False
        # --- what came of it ---
        self.clients: dict[str, dict[str, object]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, tuple[str, float]] = {}
        self.refresh_tokens: dict[str, str] = {}
        self.given: set[str] = set()
        self.assertions: list[dict[str, object]] = []

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]

    def grant(self, scope: str, expires_in: float | None = 3600) -> str:
        token = f"secret-access-{secrets.token_hex(8)}"
        self.tokens[token] = (scope, time.time() + (expires_in or 1e9))
        self.given.add(token)
        return token

    def refresh_token(self, scope: str) -> str:
        token = f"secret-refresh-{secrets.token_hex(8)}"
        self.refresh_tokens[token] = scope
        self.given.add(token)
        return token

    async def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        if request.path in self.hangs:
            await trio.sleep_forever()
        if request.path in self.gates:
            await self.gates[request.path].wait()
        if request.path in self.replies:
            return self.replies[request.path]
        routes: dict[str, Callable[[Request], Reply]] = {
            "/.well-known/oauth-protected-resource/mcp": self._resource,
            "/.well-known/oauth-authorization-server": self._server,
            "/.well-known/openid-configuration": self._oidc,
            "/register": self._register,
            "/authorize": self._authorize,
            "/token": self._token,
            "/mcp": self._mcp,
        }
        route = routes.get(request.path)
        return (404, {}, b"") if route is None else route(request)

    def _resource(self, request: Request) -> Reply:
        return _json(
            200,
            {"resource": self.mcp, "authorization_servers": [self.url], "scopes_supported": [self.needed_scope]}
            | self.resource_metadata,
        )

    def _document(self) -> dict[str, object]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        } | self.metadata

    def _server(self, request: Request) -> Reply:
        return (404, {}, b"") if self.is_oidc else _json(200, self._document())

    def _oidc(self, request: Request) -> Reply:
        return _json(200, self._document()) if self.is_oidc else (404, {}, b"")

    def _register(self, request: Request) -> Reply:
        client = json.loads(request.body)
        client["client_id"] = f"client-{len(self.clients)}"
        self.clients[client["client_id"]] = client
        return _json(201, client)

    def _authorize(self, request: Request) -> Reply:
        said = request.query
        client = self.clients.get(said["client_id"])
        if client is None or said["redirect_uri"] not in client["redirect_uris"]:  # type: ignore[operator]
            return _json(400, {"error": "invalid_request"})
        back = {"state": said["state"]}
        if self.iss is not None:
            back["iss"] = self.url if self.iss == "right" else self.iss
        if self.denies:
            back["error"] = "access_denied"
        elif said.get("code_challenge_method") != "S256" or said["response_type"] != "code":
            back["error"] = "invalid_request"
        else:
            code = f"secret-code-{secrets.token_hex(8)}"
            self.codes[code] = said
            self.given.add(code)
            back["code"] = code
        return 302, {"Location": f"{said['redirect_uri']}?{urlencode(back)}"}, b""

    def _token(self, request: Request) -> Reply:
        form = request.form
        grant = form.get("grant_type")
        if grant == "authorization_code":
            return self._from_code(form)
        if grant == "refresh_token":
            return self._from_refresh_token(form)
        if grant == "client_credentials":
            return self._from_credentials(request, form)
        return _json(400, {"error": "unsupported_grant_type"})

    def _from_code(self, form: dict[str, str]) -> Reply:
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if form["client_id"] not in self.clients:
            return _json(401, {"error": "invalid_client"})
        if asked is None or proof != asked["code_challenge"]:
            return _json(400, {"error": "invalid_grant", "error_description": form["code"]})
        if form["redirect_uri"] != asked["redirect_uri"] or form["client_id"] != asked["client_id"]:
            return _json(400, {"error": "invalid_grant"})
        resource = self.resource or self.mcp
        if form.get("resource") != resource or asked.get("resource") != resource:
            return _json(400, {"error": "invalid_target"})
        return self._give(asked.get("scope", ""), refreshes=True)

    def _from_refresh_token(self, form: dict[str, str]) -> Reply:
        scope = self.refresh_tokens.get(form["refresh_token"])
        if scope is None:
            return _json(400, {"error": "invalid_grant", "error_description": form["refresh_token"]})
        if form.get("resource") != (self.resource or self.mcp):
            return _json(400, {"error": "invalid_target"})
        if self.rotates:
            del self.refresh_tokens[form["refresh_token"]]
        return self._give(scope, refreshes=self.rotates)

    def _from_credentials(self, request: Request, form: dict[str, str]) -> Reply:
        if not (self._is_signed(form) or self._knows_secret(request, form)):
            return _json(401, {"error": "invalid_client"})
        return self._give(form.get("scope", ""), refreshes=False)

    def _knows_secret(self, request: Request, form: dict[str, str]) -> bool:
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            name, _, password = base64.b64decode(value).decode().partition(":")
            client_id, secret = unquote(name), unquote(password)
        return bool(secret) and self.secrets.get(client_id) == secret

    def _is_signed(self, form: dict[str, str]) -> bool:
        if form.get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer":
            return False
        claimed = jwt.decode(form["client_assertion"], options={"verify_signature": False})
        key, algorithm = self.public_keys[claimed["sub"]]
        self.assertions.append(
            jwt.decode(form["client_assertion"], key, algorithms=[algorithm], audience=self.url, issuer=claimed["sub"])
        )
        return True

    def _give(self, scope: str, *, refreshes: bool) -> Reply:
        scope = scope if self.granted_scope is None else self.granted_scope
        said: dict[str, object] = {"token_type": "bearer", "access_token": self.grant(scope, self.expires_in)}
        said["scope"] = scope
        if self.expires_in is not None:
            said["expires_in"] = self.expires_in
        if refreshes:
            said["refresh_token"] = self.refresh_token(scope)
        return _json(200, said)

    def _mcp(self, request: Request) -> Reply:
        if self.wants_revision and "mcp-protocol-version" not in request.headers:
            return 400, {}, b""
        scope, until = self.tokens.get(request.headers.get("authorization", "").removeprefix("Bearer "), ("", 0.0))
        parts = []
        if self.shows_metadata_in_challenge:
            parts.append(f'resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"')
        if until <= time.time():
            if self.challenge_scope is not None:
                parts.append(f'scope="{self.challenge_scope}"')
            return 401, {"WWW-Authenticate": f"Bearer {', '.join(parts)}".strip()}, b""
        if not set(self.needed_scope.split()) <= set(scope.split()):
            parts.append(f'error="insufficient_scope", scope="{self.needed_scope}"')
            return 403, {"WWW-Authenticate": f"Bearer {', '.join(parts)}"}, b""
        return _serve_mcp(request)


def _serve_mcp(request: Request) -> Reply:
    """A server of the revision 2025-11-25 with the tool `echo`."""
    if request.method != "POST":
        return 405, {}, b""
    asked = json.loads(request.body)
    results: dict[str, object] = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "guarded", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "it was called"}]},
    }
    if "id" not in asked:
        return 202, {}, b""
    return _json(200, {"jsonrpc": "2.0", "id": asked["id"], "result": results.get(asked.get("method"), {})})


def _json(status: int, value: object) -> Reply:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


@asynccontextmanager
async def serving(origin: OAuthServer | Recorder) -> AsyncIterator[None]:
    """Serve `origin` on 127.0.0.1, whose `url` it then has."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        origin.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        await nursery.start(trio.serve_listeners, partial(_serve, origin.answer), listeners)
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()


async def _serve(answer: Callable[[Request], Awaitable[Reply]], stream: trio.SocketStream) -> None:
    connection = h11.Connection(h11.SERVER)
    try:
        async with stream:
            while connection.states == {h11.CLIENT: h11.IDLE, h11.SERVER: h11.IDLE}:
                request = await _read(connection, stream)
                if request is None:
                    return
                status, headers, body = await answer(request)
                sent = headers | {"Content-Length": str(len(body))}
                fields = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
                await stream.send_all(
                    (connection.send(h11.Response(status_code=status, headers=fields)) or b"")
                    + (connection.send(h11.Data(data=body)) or b"")
                    + (connection.send(h11.EndOfMessage()) or b"")
                )
                connection.start_next_cycle()
    except (trio.BrokenResourceError, h11.ProtocolError):
        pass


async def _read(connection: h11.Connection, stream: trio.SocketStream) -> Request | None:
    head: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(65536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            parts = urlsplit(head.target.decode())
            headers = {name.decode(): value.decode() for name, value in head.headers}
            return Request(head.method.decode(), parts.path, dict(parse_qsl(parts.query)), headers, body)
        else:
            return None
