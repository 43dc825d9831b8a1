"""Operations of Swagger 2.0 in the form of OpenAPI 3: parameters with a schema each, a body with its media types.

References to `#/definitions/…` lead there as they are, and what a schema says is read as 3.0's (`conversion`).
"""

from collections.abc import Iterable
from typing import Final

from tooldispatchd.catalog.openapi.apidocument import ApiDocument, Object, UnfitError, list_of, object_of, text_of
from tooldispatchd.catalog.openapi.bodydraft import FORM, JSON, MULTIPART

# What stands beside the schema; everything else is the schema.
_OWN: Final = frozenset(("name", "in", "required", "collectionFormat", "allowEmptyValue"))
# Style and explode of each `collectionFormat`, in a query or a form.
_STYLES: Final[dict[str, tuple[str, bool]]] = {
    "csv": ("form", False),
    "ssv": ("spaceDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}


def modern_document(document: ApiDocument) -> tuple[list[object], dict[str, object]]:
    """The servers and the security schemes of a document of Swagger 2.0, as OpenAPI 3 has them."""
    host, base = text_of(document.value("host")), text_of(document.value("basePath"))
    schemes = [str(each) for each in list_of(document.value("schemes"))]
    scheme = next((each for each in ("https", "http") if each in schemes), "https")
    server = {"url": (f"{scheme}://{host}" if host else "") + (base if base.startswith("/") else f"/{base}")}
    described = object_of(document.value("securityDefinitions"))
    return [server], {name: _scheme(object_of(each)) for name, each in described.items()}


def _scheme(scheme: Object) -> Object:
    return {"type": "http", "scheme": "basic"} if scheme.get("type") == "basic" else scheme


def modern_operation(
    operation: Object, parameters: Iterable[Object], document: ApiDocument
) -> tuple[Object, list[Object]]:
    """An operation and its parameters, which stand in for those of its own."""
    kept: list[Object] = []
    fields: list[Object] = []
    modern = {key: value for key, value in operation.items() if key not in {"parameters", "responses"}}
    consumed = _media_types(operation, document, "consumes")
    for parameter in parameters:
        match parameter.get("in"):
            case "body":
                content = {media: {"schema": parameter.get("schema", {})} for media in consumed or [JSON]}
                modern["requestBody"] = {**_described(parameter), "content": content}
            case "formData":
                fields.append(parameter)
            case _:
                kept.append(_parameter(parameter))
    if fields:
        modern["requestBody"] = _form(fields, consumed)
    produced = _media_types(operation, document, "produces") or [JSON]
    modern["responses"] = {
        code: _response(response, produced, document)
        for code, response in object_of(operation.get("responses")).items()
    }
    return modern, kept


def _media_types(operation: Object, document: ApiDocument, key: str) -> list[str]:
    stated = operation[key] if key in operation else document.value(key)
    return [each for each in list_of(stated) if isinstance(each, str)]


def _parameter(parameter: Object) -> Object:
    where = parameter.get("in")
    modern: Object = {"name": parameter.get("name"), "in": where, **_described(parameter), "schema": _schema(parameter)}
    if parameter.get("type") == "array":
        style, explode = _style(parameter)
        if where != "query":
            # In a path or a header there are commas, or nothing that is known.
            style, explode = "simple" if style == "form" else style, False
        modern["style"], modern["explode"] = style, explode
    return modern


def _style(parameter: Object) -> tuple[str, bool]:
    """Style and explode of a list; one that is not known has the name that the document has for it."""
    name = str(parameter.get("collectionFormat", "csv"))
    return _STYLES.get(name, (name, False))


def _described(parameter: Object) -> Object:
    return {key: parameter[key] for key in ("description", "required") if key in parameter}


def _schema(parameter: Object) -> Object:
    schema = {key: value for key, value in parameter.items() if key not in _OWN}
    return {**schema, "type": "string", "format": "binary"} if schema.get("type") == "file" else schema


def _form(fields: list[Object], consumed: list[str]) -> Object:
    has_file = any(field.get("type") == "file" for field in fields)
    media = MULTIPART if has_file or (MULTIPART in consumed and FORM not in consumed) else FORM
    schema: Object = {
        "type": "object",
        "properties": {str(field.get("name")): _schema(field) for field in fields},
        "required": [str(field.get("name")) for field in fields if field.get("required") is True],
    }
    encoding: Object = {}
    for field in fields:
        style, explode = _style(field)
        if field.get("type") == "array":
            encoding[str(field.get("name"))] = {"style": style, "explode": explode}
    return {"required": bool(schema["required"]), "content": {media: {"schema": schema, "encoding": encoding}}}


def _response(response: object, produced: list[str], document: ApiDocument) -> Object:
    try:
        stated = object_of(document.follow(response))
    except UnfitError:
        return {}
    if "schema" not in stated:
        return {}
    return {"content": {media: {"schema": stated["schema"]} for media in produced}}
