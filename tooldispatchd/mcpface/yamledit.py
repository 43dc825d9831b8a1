"""Set one value in the text of a YAML file and leave every other line as it is, with its comments. Pure.

What is new is written in blocks where its neighbours are, a replaced value as JSON, which is YAML too.
"""

import json
from collections.abc import Sequence
from typing import Final

import yaml

from tooldispatchd.mcpface.jsonc import EditError, Json, nested

_NULL: Final = "tag:yaml.org,2002:null"


def read_yaml(text: str) -> Json:
    """Return the value of the text, None for one of nothing but comments; raises `EditError`."""
    try:
        value: Json = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise EditError("this is no YAML", text, 0 if mark is None else mark.index) from error
    return value


def with_yaml(text: str, path: Sequence[str], value: Json) -> str:
    """Return the text with `value` under the keys of `path`; a list has its members by their `name`."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    key, node = None, yaml.compose(text, Loader=yaml.SafeLoader)
    for depth, step in enumerate(path):
        found = _child(node, step)
        if found is None:
            inner = nested(path[depth + 1 :], value)
            if isinstance(node, yaml.ScalarNode) and node.tag == _NULL:
                value = {step: inner}
                break
            member: Json = [inner] if isinstance(node, yaml.SequenceNode) else {step: inner}
            return _inserted(text, node, member, line_end)
        key, node = found
    assert node is not None
    begin = node.start_mark.index if key is None else key.end_mark.index
    return f"{text[:begin]}{'' if key is None else ': '}{json.dumps(value, ensure_ascii=False)}{text[_end(node) :]}"


def _child(node: yaml.Node | None, step: str) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            named = _child(each, "name")
            if named is not None and named[1].value == step:
                return None, each
    return None


def _inserted(text: str, node: yaml.Node | None, member: Json, line_end: str) -> str:
    """Return the text with one more member at the end of a mapping or list."""
    if isinstance(node, yaml.CollectionNode) and node.flow_style:
        close, written = node.end_mark.index - 1, json.dumps(member, ensure_ascii=False)[1:-1]
        return f"{text[:close].rstrip()}{', ' if node.value else ''}{written}{text[close:]}"
    if isinstance(node, yaml.ScalarNode):
        raise EditError("this holds no servers", text, node.start_mark.index)
    column = 0 if node is None else node.start_mark.column
    at = len(text) if node is None else (text.find("\n", _end(node)) + 1 or len(text))
    before = text[:at] if not text[:at] or text[:at].endswith("\n") else text[:at] + line_end
    block: str = yaml.safe_dump(member, sort_keys=False, allow_unicode=True, width=float("inf"))
    return before + "".join(f"{' ' * column}{line}{line_end}" for line in block.splitlines()) + text[at:]


def _end(node: yaml.Node) -> int:
    """Return where the text of a node ends, without the comments behind it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return max(map(_end, last)) if isinstance(last, tuple) else _end(last)
    end: int = node.end_mark.index
    return end
