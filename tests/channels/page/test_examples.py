"""The examples that the page shows for the demo model."""

import pytest

from rumi.models.offline_grammar import Step, parse
from rumi.platform.texts.page import page_words


@pytest.mark.parametrize("language", ["en", "es", "pt"])
def test_the_demo_model_understands_each_example_of_its_own(language: str) -> None:
    words = page_words(language)
    examples = [text for name, text in words.items() if name.startswith("demo_") and name.endswith("_text")]
    assert len(examples) == 4
    for example in examples:
        assert all(isinstance(step, Step) for step in parse(example, language)), example
