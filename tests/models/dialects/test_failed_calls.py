"""Names and calls as models write them. The failed generations are of kinds that Groq's users reported."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.models.dialects.failed_calls import MAX_FAILED_CHARS, clean_name, read_failed_generation

TOOLS = {"bash", "web_search"}
LS = ("bash", {"command": "ls"})


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("bash", "bash"),
        ("functions.bash", "bash"),
        ("function.bash", "bash"),
        ("tools:bash", "bash"),
        ("bash<|channel|>commentary", "bash"),
        ("functions.bash<|channel|>commentary", "bash"),
        ("bash<|constrain|>json", "bash"),
        ("bash <|channel|>analysis", "bash"),
        ("assistant<|channel|>commentary to=functions.bash", "bash"),
        ("functions_list", "functions_list"),
        ("functions", "functions"),
        ("my.tool", "my.tool"),
        ("<|channel|>", "<|channel|>"),
    ],
)
def test_a_name_loses_what_belongs_to_the_models_format(written: str, name: str) -> None:
    assert clean_name(written) == name


@pytest.mark.parametrize(
    ("written", "calls"),
    [
        ('{"name": "bash", "arguments": {"command": "ls"}}', [LS]),
        ('{"name": "functions.bash", "arguments": {"command": "ls"}}', [LS]),
        ('{"name": "bash<|channel|>commentary", "parameters": {"command": "ls"}}', [LS]),
        ('{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}', [LS]),
        ('[{"name": "bash", "parameters": {"command": "ls"}}]', [LS]),
        ('{"name": "bash", "arguments": {"command": "ls"}}\n{"name": "bash", "arguments": {}}',
         [LS, ("bash", {})]),
        ('<function=bash>{"command": "ls"}</function>', [LS]),
        ('<function=bash{"command": "ls"}</function>', [LS]),
        ('<function=bash={"command": "ls"}</function>', [LS]),
        ('<function(bash){"command": "ls"}</function>', [LS]),
        ('<function=bash>{"command": "ls"}</function><function=bash>{}</function>', [LS, ("bash", {})]),
        ('bash{"command": "ls"}</function>', [LS]),
        ('web_search{"query": "SPFMV", "filter_year": 2016}</function>',
         [("web_search", {"query": "SPFMV", "filter_year": 2016})]),
        ('<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>', [LS]),
        ('```\n{\n  "tool_calls": [{"id": "pending", "type": "function", "function": {"name": "bash"}, '
         '"parameters": {"command": "ls"}}]\n}\n```', [LS]),
        ('<tool-use>{"tool_calls": [{"function": {"name": "bash", "arguments": "{\\"command\\": '
         '\\"ls\\"}"}}]}</tool-use>', [LS]),
        ('<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"command": "ls"}<|call|>',
         [LS]),
        ('<|start|>assistant<|channel|>commentary to=functions.bashjson<|message|>{"command": "ls"}', [LS]),
        ('I will look. {"name": "bash", "arguments": {"command": "ls"}}', [LS]),
        ('{"name": "bash", "arguments": {"command": "echo \n"}}', [("bash", {"command": "echo \n"})]),
        ('{"name": "launch", "arguments": {}}', [("launch", {})]),
        # What is no call, or none to be sure of.
        ("", []),
        ("### Top stories\nI have found the following.", []),
        ("import csv\nmax_val = -1\nwith open('x') as f:\n  rows = {1: 2}", []),
        ('{"command": "ls"}', []),
        ('{"name": "bash"}', []),
        ('{"name": "bash", "arguments": "ls -la"}', []),
        ('{"name": "bash", "arguments": {"command": "ls"', []),
        ('launch{"speed": 3}', []),
        ("<function=bash>ls</function>", []),
    ],
)  # fmt: skip
def test_a_failed_generation_is_read_where_a_call_is_certain(
    written: str, calls: list[tuple[str, object]]
) -> None:
    found = read_failed_generation(written, TOOLS)
    assert [(call.name, json.loads(call.arguments)) for call in found] == calls
    assert len({call.id for call in found}) == len(found)


@given(st.text(alphabet='{}[]<>=|"\\, :abn1', max_size=200))
def test_whatever_it_is_nothing_is_raised(text: str) -> None:
    read_failed_generation(text, TOOLS)
    clean_name(text)


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**6, "<function=a" * 10**5, "to=a " * 10**5])
def test_what_is_long_and_deep_is_bounded(text: str) -> None:
    assert read_failed_generation(text, TOOLS) == ()
    assert len(text) > MAX_FAILED_CHARS
