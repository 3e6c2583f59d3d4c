"""The schema of a model's answer with extracted facts. Imported late, because importing pydantic is slow."""

from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

MAX_FACTS: Final = 20
"""Maximum number of facts from one conversation; an answer with more is invalid."""


class Strict(BaseModel):
    """A pydantic model that rejects unknown keys and does not convert values."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class AnswerFact(Strict):
    """A fact as the model writes it. Only lengths are checked here; `rumi.memory.filter` checks the rest."""

    key: Annotated[str, Field(max_length=1000)]
    value: Annotated[str, Field(max_length=10_000)]
    replaces: Annotated[str, Field(max_length=1000)] | None = None


Listed: TypeAlias = Annotated[list[AnswerFact], Field(max_length=MAX_FACTS)]


class ExtractedFacts(Strict):
    """A model's whole answer: the extracted facts, and a line on the subject of the conversation."""

    facts: Listed
    line: Annotated[str, Field(max_length=10_000)] = ""


ANSWER: Final[TypeAdapter[ExtractedFacts | list[AnswerFact]]] = TypeAdapter(ExtractedFacts | Listed)
"""Validates an answer: the requested object, or a bare list of facts, which models also write."""


def read_answer(text: str) -> ExtractedFacts | None:
    """Parse an answer into facts and a subject line; return None if the answer does not match the schema."""
    try:
        answer = ANSWER.validate_json(text)
    except ValidationError:
        return None
    return answer if isinstance(answer, ExtractedFacts) else ExtractedFacts(facts=answer)
