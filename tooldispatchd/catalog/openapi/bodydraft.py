"""The body of a request: JSON under one field or merged into the others, the fields of a form, a text, or bytes."""

from typing import Final

from tooldispatchd.catalog.openapi.apidocument import Object, UnfitError, list_of, object_of, text_of
from tooldispatchd.catalog.openapi.requestdraft import (
    LIST,
    MAX_WIRE_NAME,
    SCALAR,
    RequestDraft,
    is_binary,
    placeholder,
)
from tooldispatchd.catalog.openapi.responses import is_json

BODY: Final = "body"
# Where a parameter has that name.
OTHER_BODY: Final = "_request_body"
JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
_OCTETS: Final = "application/octet-stream"
# Of several JSON types the one that any record is a body of.
_PREFERRED: Final = (JSON, "application/merge-patch+json", "text/json")
_BYTES: Final[Object] = {"type": "string", "contentEncoding": "base64"}


def take_body(draft: RequestDraft, body: Object, *, flatten: bool) -> None:
    """Put a request's body into the draft. Raises `UnfitError`."""
    stated = object_of(body.get("content")).items()
    content = {media.partition(";")[0].strip().lower(): object_of(kind) for media, kind in stated}
    if not content:
        return
    is_required = body.get("required") is True
    # That a form may be left out is said by mistake as a rule: its fields are required as it says itself.
    json = [media for media in content if is_json(media) or media in {"*/*", "application/*"}]
    if json:
        media = next((each for each in _PREFERRED if each in json), json[0])
        _take_json(draft, body, media, content[media], is_required=is_required, flatten=flatten)
    elif FORM in content:
        _take_form(draft, content[FORM])
    elif MULTIPART in content:
        _take_multipart(draft, content[MULTIPART])
    elif found := next((media for media in content if media.startswith("text/") and media != "text/xml"), None):
        field = _add(draft, body, {"type": "string"}, is_required=is_required)
        draft.rest |= {"text": placeholder(field)} | ({} if found == "text/plain" else {"content_type": found})
    elif found := next((media for media in content if _is_bytes(draft, media, content[media])), None):
        field = _add(draft, body, {**_BYTES, "description": f"{found}, in base64"}, is_required=is_required)
        # Some want the text in base64 itself.
        draft.rest["text" if _is_base64(draft, content[found]) else "octets"] = placeholder(field)
        if found != _OCTETS and "*" not in found:
            draft.rest["content_type"] = found
    else:
        raise UnfitError(f"no body of type {' or '.join(content)} is written")


def _is_bytes(draft: RequestDraft, media: str, kind: Object) -> bool:
    schema = draft.follow(kind.get("schema", {}))
    if schema.get("type", "string") not in ("string", ["string", "null"]):
        return False
    is_file = media.partition("/")[0] in {"image", "audio", "video", "font"} or media == _OCTETS
    return is_file or ("schema" in kind and is_binary(schema))


def _is_base64(draft: RequestDraft, kind: Object) -> bool:
    schema = draft.follow(kind.get("schema", {}))
    return schema.get("format") == "byte" or schema.get("contentEncoding") == "base64"


def _add(draft: RequestDraft, body: Object, schema: Object, *, is_required: bool) -> str:
    """The field that is the whole body."""
    if "description" not in schema:
        schema = draft.described(schema, text_of(body.get("description")))
    name = OTHER_BODY if BODY in draft.properties else BODY
    # Its name is as it is: `add` would take the underscore away.
    if name not in draft.properties:
        draft.properties[name] = schema
        draft.required += [name] if is_required else []
        return name
    return draft.add(name, schema, is_required=is_required, suffix=BODY)


def _take_json(
    draft: RequestDraft, body: Object, media: str, kind: Object, *, is_required: bool, flatten: bool
) -> None:
    schema = kind.get("schema", {})
    if "*" not in media and media != JSON:
        draft.rest["content_type"] = media
    fields = _flat_fields(draft, schema) if flatten else None
    if fields is None:
        draft.rest["body"] = placeholder(_add(draft, body, draft.in_place(schema), is_required=is_required))
        return
    required = list_of(draft.follow(schema).get("required"))
    draft.rest["body"] = {
        name: placeholder(draft.add(name, part, is_required=name in required, suffix=BODY))
        for name, part in fields.items()
    }


def _flat_fields(draft: RequestDraft, schema: object) -> Object | None:
    """The fields of a record whose values are scalars or lists of them; None where a schema is no such record."""
    node = draft.follow(schema)
    is_record = node.get("type") in ("object", None) and bool(object_of(node.get("properties")))
    if not is_record or isinstance(node.get("additionalProperties"), dict):
        return None
    if not node.keys().isdisjoint(("allOf", "anyOf", "oneOf", "not", "if", "patternProperties")):
        return None
    if any(draft.shape(part) not in {SCALAR, LIST} for part in object_of(node["properties"]).values()):
        return None
    made = object_of(object_of(draft.in_place(schema)).get("properties"))
    return None if made.keys() & draft.properties.keys() else made


def _take_form(draft: RequestDraft, kind: Object) -> None:
    """The fields of a form, each a field of the input. Raises `UnfitError`."""
    form: Object = {}
    encodings = object_of(kind.get("encoding"))
    for name, part, schema, is_needed in _fields(draft, kind):
        encoding = object_of(encodings.get(name))
        try:
            is_written_as_json = is_json(text_of(encoding.get("contentType")))
            style = "json" if is_written_as_json else draft.style_of(part, encoding, "form")
        except UnfitError as error:
            if is_needed:
                raise UnfitError(f"field {name} of its form: {error}") from None
            draft.notes.append(f"field {name} of its form: {error}")
            continue
        field = draft.add(name, schema, is_required=is_needed, suffix=BODY)
        form[name] = placeholder(field)
        if style:
            draft.style(field, style)
    if form:
        draft.rest["form"] = form


def _take_multipart(draft: RequestDraft, kind: Object) -> None:
    """The parts of a form, each a field of the input: a list is several of one name, a record is JSON."""
    parts: Object = {}
    encodings = object_of(kind.get("encoding"))
    for name, part, converted, is_needed in _fields(draft, kind):
        node, schema = draft.follow(part), converted
        if "style" in object_of(encodings.get(name)) and draft.shape(part) != SCALAR:
            why = f"part {name} of its body: a part is written in no style"
            if is_needed:
                raise UnfitError(why)
            draft.notes.append(why)
            continue
        if is_binary(node):
            schema = {**_BYTES, "description": f"{text_of(converted.get('description'))} A file, in base64.".strip()}
        elif draft.shape(part) == LIST and is_binary(draft.follow(node.get("items"))):
            schema = {"type": "array", "items": _BYTES, "description": "Files, in base64."}
        parts[name] = placeholder(draft.add(name, schema, is_required=is_needed, suffix=BODY))
    if parts:
        draft.rest["multipart"] = parts


def _fields(draft: RequestDraft, kind: Object) -> list[tuple[str, object, Object, bool]]:
    """Each field of a form: its name, its schema as it is written and as it is converted, whether it is required."""
    schema = kind.get("schema", {})
    node = draft.follow(schema)
    if not node.keys().isdisjoint(("allOf", "anyOf", "oneOf")) or node.get("type") not in ("object", None):
        raise UnfitError("the form that is its body is no plain record")
    made = object_of(object_of(draft.in_place(schema)).get("properties"))
    written = object_of(node.get("properties"))
    required = list_of(node.get("required"))
    if any(not 0 < len(name) <= MAX_WIRE_NAME for name in made):
        raise UnfitError("a field of its form has no name")
    return [(name, written[name], object_of(part), name in required) for name, part in made.items()]
