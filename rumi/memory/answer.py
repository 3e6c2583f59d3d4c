"""The schema of a model's answer with facts. Imported late, because pydantic takes long to import."""

from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

MAX_FACTS: Final = 20
"""Maximum number of facts from one conversation; an answer with more is invalid."""


class Strict(BaseModel):
    """A model that allows no unknown keys and converts no values."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class AnswerFact(Strict):
    """A fact as the model writes it. The schema only limits its length; the filter judges its content."""

    key: Annotated[str, Field(max_length=1000)]
    value: Annotated[str, Field(max_length=10_000)]
    replaces: Annotated[str, Field(max_length=1000)] | None = None


Listed: TypeAlias = Annotated[list[AnswerFact], Field(max_length=MAX_FACTS)]


class ExtractedFacts(Strict):
    """The whole answer."""

    facts: Listed
    line: Annotated[str, Field(max_length=10_000)] = ""


ANSWER: Final[TypeAdapter[ExtractedFacts | list[AnswerFact]]] = TypeAdapter(ExtractedFacts | Listed)
"""The requested object, or only the list, which models also write."""


def read_answer(text: str) -> ExtractedFacts | None:
    """Return the facts and the line of an answer; None if the answer does not have the requested form."""
    try:
        answer = ANSWER.validate_json(text)
    except ValidationError:
        return None
    return answer if isinstance(answer, ExtractedFacts) else ExtractedFacts(facts=answer)
