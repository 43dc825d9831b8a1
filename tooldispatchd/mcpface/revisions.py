"""The revisions of MCP: what each knows, and the parameters of all their requests."""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType


class Revision(msgspec.Struct, frozen=True):
    """One revision; each field says whether it knows that."""

    name: str
    has_annotations: bool = True
    has_audio: bool = True
    has_messages_of_progress: bool = True
    has_batches: bool = False
    has_structure: bool = True
    """`structuredContent` and `outputSchema`, `title`, `resource_link` and `_meta` of parts and tools."""
    has_elicitation: bool = True
    has_icons: bool = True
    """Icons of tools, and extensions of servers."""
    has_tasks: bool = False
    """The experimental ones of the handshake."""
    not_found: int = -32002
    """The error for a resource that is not there."""
    is_stateless: bool = False
    """Each request says its revision and the client's capabilities itself, and nothing is sent unasked."""


R2024_11: Final = Revision(
    "2024-11-05",
    has_annotations=False,
    has_audio=False,
    has_messages_of_progress=False,
    has_structure=False,
    has_elicitation=False,
    has_icons=False,
)
R2025_03: Final = Revision("2025-03-26", has_batches=True, has_structure=False, has_elicitation=False, has_icons=False)
R2025_06: Final = Revision("2025-06-18", has_icons=False)
R2025_11: Final = Revision("2025-11-25", has_tasks=True)
R2026_07: Final = Revision("2026-07-28", not_found=-32602, is_stateless=True)

# The newest first: that is what a client with an unknown one is offered.
REVISIONS: Final = {known.name: known for known in (R2026_07, R2025_11, R2025_06, R2025_03, R2024_11)}

_PREFIX: Final = "io.modelcontextprotocol/"
TASKS_EXTENSION: Final = f"{_PREFIX}tasks"
RELATED_TASK: Final = f"{_PREFIX}related-task"
SUBSCRIPTION: Final = f"{_PREFIX}subscriptionId"
SERVER_INFO: Final = f"{_PREFIX}serverInfo"
UI_EXTENSION: Final = f"{_PREFIX}ui"
SKILLS_EXTENSION: Final = f"{_PREFIX}skills"


class ClientOffer(msgspec.Struct, rename="camel"):
    """What a client can be asked; each is there if it is an object, whatever is in it."""

    elicitation: dict[str, Raw] | None = None
    sampling: dict[str, Raw] | None = None
    roots: dict[str, Raw] | None = None
    extensions: dict[str, Raw] | None = None

    def answers(self) -> list[str]:
        """The `answers` of our `hello`."""
        kinds = {
            "sampling": self.sampling is not None,
            "roots": self.roots is not None,
            "url": self.has_pages,
            "ui": self.has_apps,
        }
        asked = [kind for kind, is_offered in kinds.items() if is_offered]
        return ["elicitation", *asked, "approve"] if self.has_forms else asked

    @property
    def has_forms(self) -> bool:
        """Whether it shows forms, which one that says nothing of what it shows does."""
        return self.elicitation is not None and ("form" in self.elicitation or "url" not in self.elicitation)

    @property
    def has_pages(self) -> bool:
        """Whether it leads a person to an address."""
        return self.elicitation is not None and "url" in self.elicitation

    @property
    def has_apps(self) -> bool:
        """Whether it shows MCP Apps."""
        return self.extensions is not None and UI_EXTENSION in self.extensions

    @property
    def has_tasks(self) -> bool:
        """Whether it takes a task for an answer (the extension of the stateless revision)."""
        return self.extensions is not None and TASKS_EXTENSION in self.extensions


class RequestMeta(msgspec.Struct):
    """What of `_meta` of a request is read."""

    token: Raw | UnsetType = msgspec.field(name="progressToken", default=UNSET)
    revision: str | None = msgspec.field(name=f"{_PREFIX}protocolVersion", default=None)
    offer: ClientOffer | None = msgspec.field(name=f"{_PREFIX}clientCapabilities", default=None)
    traceparent: str | None = None


class CompletedThing(msgspec.Struct):
    """What `completion/complete` is about: a prompt (`name`) or a template of resources (`uri`)."""

    type: str
    name: str | None = None
    uri: str | None = None


class Wish(msgspec.Struct, rename="camel", omit_defaults=True):
    """What a `subscriptions/listen` is to hear of."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: list[str] = []


class Params(msgspec.Struct, rename="camel"):
    """The parameters of all requests and notifications in one Struct, so that they are read once."""

    meta: RequestMeta | None = msgspec.field(name="_meta", default=None)
    name: str | None = None
    arguments: Raw | UnsetType = UNSET
    cursor: str | None = None
    uri: str | None = None
    level: str | None = None
    ref: CompletedThing | None = None
    argument: Raw | UnsetType = UNSET
    context: Raw | UnsetType = UNSET
    task: dict[str, Raw] | None = None
    task_id: str | None = None
    input_responses: dict[str, Raw] | None = None
    request_state: str | None = None
    notifications: Wish | None = None
    protocol_version: str | None = None
    capabilities: ClientOffer | None = None
    request_id: Raw | UnsetType = UNSET


read_params: Final = msgspec.json.Decoder(Params).decode
