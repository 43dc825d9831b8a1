"""What a server's 401 or 403 says of the token that it wants (RFC 6750, 3; RFC 9728, 5.1)."""

import re
from typing import Final

import msgspec

# A challenge is a few hundred bytes; the bound keeps the search short whatever a server sends.
MAX_HEADER: Final = 4096

# Values in visible ASCII, as a header may have them; what they repeat goes into one again.
_PARAMETER: Final = re.compile(
    r"\b([A-Za-z_]{1,32})\s{0,4}=\s{0,4}(?:\"([\x20\x21\x23-\x7e]{0,2048})\"|([\x21\x23-\x2b\x2d-\x7e]{1,2048}))"
)
# RFC 6749, appendix A.4.
_SCOPES: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")


class Challenge(msgspec.Struct, frozen=True):
    """One answer that asks for a token or for a better one; what it does not say is None."""

    status: int
    error: str | None = None
    scope: str | None = None
    resource_metadata: str | None = None

    @property
    def asks_for_more(self) -> bool:
        """Whether the token was good and its scope too narrow: a step-up."""
        return self.status == 403 and self.error == "insufficient_scope"

    def header(self) -> str:
        """The challenge as a `WWW-Authenticate` header that holds nothing else."""
        said = {"error": self.error, "scope": self.scope, "resource_metadata": self.resource_metadata}
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in said.items() if value is not None)


def read_challenge(status: int, header: str) -> Challenge:
    """The challenge in the `WWW-Authenticate` header of an answer, "" where it has none."""
    said: dict[str, str] = {}
    for name, quoted, bare in _PARAMETER.findall(header[:MAX_HEADER]):
        # Of two that contradict each other the first counts, as in any header that may stand once.
        said.setdefault(name.lower(), quoted or bare)
    scope = said.get("scope")
    return Challenge(
        status,
        error=said.get("error"),
        scope=scope if scope is not None and _SCOPES.fullmatch(scope) else None,
        resource_metadata=said.get("resource_metadata"),
    )


def union(*scopes: str | None) -> str | None:
    """All scopes of these lists, in order, each once; None where there is none."""
    return " ".join(dict.fromkeys(scope for listed in scopes for scope in (listed or "").split())) or None


def missing_scopes(granted: str | None, wanted: str | None) -> tuple[str, ...]:
    """The scopes of `wanted` that are not among those of `granted`, in order, each once."""
    held = set((granted or "").split())
    return tuple(scope for scope in dict.fromkeys((wanted or "").split()) if scope not in held)
