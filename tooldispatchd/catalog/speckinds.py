"""What kinds of values the configuration's keys have, and the patterns and bounds that they keep to."""

from typing import Annotated, Final

from msgspec import Meta

KIB: Final = 1024
MIB: Final = 1024 * KIB
TIB: Final = 1024 * 1024 * MIB

NAME_PATTERN: Final = r"^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*$"
# A binding's name is its prefix unless it states another one.
BINDING_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$"
PREFIX_PATTERN: Final = r"^([A-Za-z0-9][A-Za-z0-9._-]{0,31})?$"
# Any name, or a pattern of `globs`, but what is meant as a regular expression, a tag or a hint: a list that restricts
# would not. A tool that is called so has its escape.
SERVER_TOOL_PATTERN: Final = r"^[^\x00-\x1f\x7f#@\[\]{}|^\\][^\x00-\x1f\x7f\[\]{}|^\\]*$"
ENV_PATTERN: Final = r"^[^=\x00]+$"
WORD_PATTERN: Final = r"^[^\x00]*$"
SOME_WORD_PATTERN: Final = r"^[^\x00]+$"
# Not `\w`, which Python's patterns and those of schemas do not mean alike: a configuration is read by both.
_DOTTED: Final = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
PYTHON_PATTERN: Final = rf"^{_DOTTED}:{_DOTTED}$"
HEADER_NAME_PATTERN: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
HEADER_VALUE_PATTERN: Final = r"^[\t\x20-\x7e]*$"
ORDER_PATTERN: Final = r"^(parallel|sequential|batched:[1-9][0-9]{0,5})$"
# Ways to answer, or the media type of a file (RFC 6838, 4.2).
OUTPUT_PATTERN: Final = (
    r"^(json|text|lines|blocks|[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126})$"
)
# Any word that a document of OpenAPI may have for one, but what would be a pattern.
TAG_PATTERN: Final = r"^[^\x00-\x1f\x7f*?]{1,128}$"
MAX_TAGS: Final = 64
DURATION_PATTERN: Final = r"[1-9][0-9]{0,5}(ms|s|m|h)"
# What each unit of a duration is in seconds.
DURATION_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
CACHE_PATTERN: Final = r"off|[1-9][0-9]{0,5}(ms|s|m|h|d)"
STORE_PATTERN: Final = r"^(memory|sqlite:[^\x00]+)$"
RATE_PATTERN: Final = r"^[1-9][0-9]{0,5}/(s|m|h)( burst [1-9][0-9]{0,5})?$"
BREAKER_PATTERN: Final = rf"^[1-9][0-9]{{0,3}} in {DURATION_PATTERN}, rest {DURATION_PATTERN}$"
# RFC 6838, 4.2, with parameters where there are any.
MEDIA_TYPE_PATTERN: Final = (
    r"^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}( *;[ !-~]*)?$"
)
# RFC 6901, 3.
POINTER_PATTERN: Final = r"^(/([^~/]|~[01])*)*$"
# What need not be escaped in JSON (RFC 8259, 7): a decoder looks for a field's name as it is written.
MEMBER_PATTERN: Final = r'^[^"\\\x00-\x1f]*$'
# What `catalog.rest.styles` knows.
STYLE_PATTERN: Final = r"^(simple|label|matrix|form|spaceDelimited|pipeDelimited|deepObject|brackets|json)[+]?[*]?$"
HOST_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?$"
# Without query and fragment (RFC 8414, 2), and without a user: such a URL holds no secret, and may be shown.
ISSUER_PATTERN: Final = r"^https?://[\x21\x24-\x3e\x41-\x5b\x5d-\x7e]+$"
# RFC 6749, 3.3.
SCOPE_PATTERN: Final = r"^[\x21\x23-\x5b\x5d-\x7e]+$"
# Servers commonly take 8 to 16 KiB of one field.
MAX_HEADER_CHARS: Final = 16 * KIB

# In the place of a path: the session's own directory.
WORKSPACE: Final = "workspace"

# Upper bounds catch a slip of the hand (one zero too many in seconds, bytes for kilobytes), not a policy.
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Name = Annotated[str, Meta(pattern=NAME_PATTERN, max_length=128)]
BindingName = Annotated[str, Meta(pattern=BINDING_PATTERN)]
ServerToolName = Annotated[str, Meta(pattern=SERVER_TOOL_PATTERN, max_length=1024)]
EnvName = Annotated[str, Meta(pattern=ENV_PATTERN)]
# The kernel ends an argument at a NUL.
Word = Annotated[str, Meta(pattern=WORD_PATTERN)]
SomeWord = Annotated[str, Meta(pattern=SOME_WORD_PATTERN)]
# RFC 9110, 5.1 and 5.5: a field's name is a token, and its value is visible text.
HeaderName = Annotated[str, Meta(pattern=HEADER_NAME_PATTERN, max_length=128)]
HeaderValue = Annotated[str, Meta(pattern=HEADER_VALUE_PATTERN, max_length=MAX_HEADER_CHARS)]
HostPort = Annotated[str, Meta(pattern=HOST_PATTERN, max_length=260)]
CallOrder = Annotated[str, Meta(pattern=ORDER_PATTERN)]
Tags = Annotated[tuple[Annotated[str, Meta(pattern=TAG_PATTERN)], ...], Meta(max_length=MAX_TAGS)]
# As a binding: other programs' configurations name both.
QueueName = Annotated[str, Meta(pattern=BINDING_PATTERN)]
# A part of the names of the tools that it runs.
HookName = Annotated[str, Meta(pattern=NAME_PATTERN, max_length=64)]
ExclusiveName = Annotated[str, Meta(pattern=NAME_PATTERN, max_length=128)]
RateText = Annotated[str, Meta(pattern=RATE_PATTERN)]
BreakerText = Annotated[str, Meta(pattern=BREAKER_PATTERN)]
# How long an answer may be given again, as text or in milliseconds; `catalog.caching` reads both. No `Meta`, as below.
CacheTime = int | str
Argv = Annotated[tuple[Word, ...], Meta(min_length=1)]
# Users or groups: by number, or by name on this machine. No `Meta` here, whose bounds are checked where names are
# looked up: a union of three kinds with it crashes the interpreter at its end, now and then (msgspec 0.22).
OwnerId = int | str
Owners = int | str | tuple[OwnerId, ...]
# Bytes, as a number or as text with a binary unit ("512M"); `catalog.confinement` reads both. No `Meta` here, as above.
Size = int | str

GONE_KEYS: Final = {
    "reuse": "an MCP server, or a Python function with `state`, which live on from call to call",
    "prefork": "`resident`, for a function that may serve one call after the other in one process",
}
"""Keys of earlier versions, and what to use instead."""
