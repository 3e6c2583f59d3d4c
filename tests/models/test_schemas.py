"""Schemas of tools, of whatever kind: every provider accepts what is sent, and nothing usable is lost."""

import importlib
import json
import pkgutil
from collections.abc import Mapping
from typing import Any

import pytest

import rumi.agent
from rumi.agent.tool import Tool
from rumi.models.model import ModelRequest, ToolSpec
from rumi.models.schema_rules import sent_schema
from rumi.models.schemas import MOST_CHARS, SchemaError, normalised
from rumi.models.wire import tools_json
from rumi.platform.config.providers import PROVIDERS
from tests.agent.mcp.odd_tools import OBJECT, STRANGE_KEYS, USABLE, WITHHELD, holding
from tests.fakes.strict_schemas import JUDGES


def sent(schema: object, scheme: str) -> Mapping[str, Any]:
    spec = ToolSpec("s__tool", "About", normalised(schema).schema)
    return sent_schema(spec, PROVIDERS[scheme].model("any").tools)


@pytest.mark.parametrize("kind", USABLE)
def test_every_provider_accepts_an_odd_schema_and_models_see_its_arguments(kind: str) -> None:
    schema, names = USABLE[kind]
    for scheme, judge in JUDGES.items():
        given = sent(schema, scheme)
        assert judge("s__tool", given) is None, f"{scheme} refuses {json.dumps(given)[:2000]}"
        assert names <= set(given["properties"]), scheme
        assert len(json.dumps(given)) <= 2 * MOST_CHARS


@pytest.mark.parametrize("kind", WITHHELD)
def test_a_schema_that_no_model_can_get_is_refused_with_the_reason(kind: str) -> None:
    with pytest.raises(SchemaError, match="Its "):
        normalised(WITHHELD[kind])


def test_the_judges_refuse_most_of_these_schemas_as_they_come() -> None:
    """Otherwise the judges prove nothing."""
    refused = {
        kind: [scheme for scheme, judge in JUDGES.items() if _refuses(judge, schema)]
        for kind, (schema, _) in USABLE.items()
    }
    for scheme in JUDGES:
        assert sum(scheme in by for by in refused.values()) >= 6, scheme
    assert sum(map(bool, refused.values())) > 0.8 * len(refused)


def _refuses(judge: Any, schema: Any) -> bool:
    try:
        return judge("s__tool", schema) is not None
    except (AttributeError, TypeError, ValueError, RecursionError):
        return True


def test_an_honest_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 0, "maximum": 9, "default": 3, "description": "How many"},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
            "inner": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        },
        "required": ["n"],
        "additionalProperties": False,
    }
    assert normalised(schema).schema == schema
    assert normalised(normalised(schema).schema).schema == schema


@pytest.mark.parametrize("kind", USABLE)
def test_a_normalised_schema_is_its_own_normal_form(kind: str) -> None:
    once = normalised(USABLE[kind][0]).schema
    assert normalised(once).schema == once


def test_names_that_providers_refuse_are_renamed_and_given_back() -> None:
    schema = holding(
        **{key: {"type": "string"} for key in STRANGE_KEYS}, inner=holding(**{"$in": {}}), fine={}
    )
    schema["required"] = ["$top", "fine"]
    found = normalised(
        {
            **schema,
            "properties": {
                **schema["properties"],
                "list": {"type": "array", "items": holding(**{"a b": {}})},
            },
        }
    )
    back = {original: name for name, original in found.renamed.items()}
    assert set(back) == {*STRANGE_KEYS, "$in", "a b"} - {"projects.any"}
    assert found.schema["required"] == [back["$top"], "fine"]
    arguments = {back["$top"]: "3", "inner": {back["$in"]: 1}, "list": [{back["a b"]: 2}], "fine": {"x": 1}}
    assert found.original(arguments) == {
        "$top": "3",
        "inner": {"$in": 1},
        "list": [{"a b": 2}],
        "fine": {"x": 1},
    }
    for scheme, judge in JUDGES.items():
        assert judge("s__tool", sent(schema, scheme)) is None


def test_what_a_union_at_the_top_says_becomes_words() -> None:
    schema = {
        **holding(a={}, b={}, c={}),
        "required": ["c"],
        "anyOf": [{"required": ["a", "c"]}, {"required": ["b"]}],
    }
    found = normalised(schema).schema
    assert found["description"] == "Give: a and c; or b."
    assert found["required"] == ["c"]


def test_a_tagged_union_offers_all_its_tags() -> None:
    schema, _ = USABLE["a union with a tag"]
    found = normalised(schema).schema
    assert found["properties"]["kind"] == {"type": "string", "enum": ["a", "b"]}
    assert found["required"] == ["kind"]


def test_an_optional_value_stays_optional_for_every_provider() -> None:
    schema = holding(a={"type": ["string", "null"], "description": "An a"})
    assert normalised(schema).schema["properties"]["a"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "An a",
    }
    assert sent(schema, "gemini")["properties"]["a"] == {
        "type": "string",
        "nullable": True,
        "description": "An a",
    }


def test_what_a_keyword_said_is_kept_in_words_where_it_must_go() -> None:
    schema = holding(
        a={"type": "string", "pattern": "^[0-9]+x$", "description": "An a"},
        b={"type": "integer", "enum": [1, 2]},
    )
    assert sent(schema, "llamacpp")["properties"]["a"]["description"] == "An a (pattern: ^[0-9]+x$)"
    assert sent(schema, "gemini")["properties"]["b"] == {"type": "integer", "description": "One of: 1, 2"}
    assert sent(schema, "openai")["properties"]["a"]["pattern"] == "^[0-9]+x$"


def test_all_providers_of_the_table_get_tools_by_their_rules() -> None:
    spec = ToolSpec("s__tool", "", {**OBJECT, "additionalProperties": False})
    for scheme, provider in PROVIDERS.items():
        (tool,) = tools_json(ModelRequest((), (spec,)), provider.model("any").tools)
        function: Any = tool["function"]
        assert ("additionalProperties" in function["parameters"]) is (scheme != "gemini"), scheme


def test_every_provider_accepts_our_own_tools() -> None:
    for module in pkgutil.walk_packages(rumi.agent.__path__, "rumi.agent."):
        if "namespaced" not in module.name:  # a program, not a module
            importlib.import_module(module.name)
    left, specs = [Tool], dict[str, ToolSpec]()
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        spec = vars(kind).get("spec")
        if isinstance(spec, ToolSpec):
            specs[spec.name] = spec
    assert {"todo", "recall", "declare_changes"} <= set(specs)
    for name, spec in specs.items():
        for scheme, judge in JUDGES.items():
            given = sent_schema(spec, PROVIDERS[scheme].model("any").tools)
            assert judge(name, given) is None, (name, scheme)
