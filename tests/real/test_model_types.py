"""The types of the models' own packages judge the tools of real servers, where these packages are installed."""

import importlib
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from tests.catalog.forms.real_servers import servers
from tooldispatchd.catalog.forms.form import render

TOOLS = [tool for listed in servers().values() for tool in listed]


def entries(form: str) -> list[Any]:
    """Each tool in a form, as an agent reads it."""
    return [msgspec.json.decode(msgspec.json.encode(render(form, tool, "t").entry)) for tool in TOOLS]


@pytest.mark.parametrize(
    ("form", "module", "name"),
    [
        ("openai", "openai.types.chat", "ChatCompletionFunctionToolParam"),
        ("openai_responses", "openai.types.responses", "FunctionToolParam"),
        ("anthropic", "anthropic.types", "ToolParam"),
    ],
)
def test_the_packages_of_models_take_every_tool(form: str, module: str, name: str) -> None:
    judge = pytest.importorskip("pydantic").TypeAdapter(getattr(pytest.importorskip(module), name))
    for entry in entries(form):
        judge.validate_python(entry, strict=True)


def test_google_s_package_takes_every_tool() -> None:
    types = pytest.importorskip("google.genai.types")
    for entry in entries("google"):
        types.FunctionDeclaration.model_validate(entry)


def test_openai_s_own_strict_form_changes_nothing_of_a_strict_function() -> None:
    pytest.importorskip("openai")
    strict_form = importlib.import_module("openai.lib._pydantic")._ensure_strict_json_schema
    functions = [entry for entry in entries("openai_responses") if entry["strict"]]
    assert functions
    for function in functions:
        schema = function["parameters"]
        assert strict_form(deepcopy(schema), path=(), root=schema) == schema
