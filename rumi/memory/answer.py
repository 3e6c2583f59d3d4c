"""The form of a model's answer when it is asked for facts. Imported late: pydantic takes a while."""

from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

MAX_FACTS: Final = 20
"""How many facts one conversation may give; an answer with more is none."""


class Strict(BaseModel):
    """Nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class AnswerFact(Strict):
    """A fact as the model writes it. Too long is not what was asked for; whether it is worth keeping, is."""

    key: Annotated[str, Field(max_length=1000)]
    value: Annotated[str, Field(max_length=10_000)]


Listed: TypeAlias = Annotated[list[AnswerFact], Field(max_length=MAX_FACTS)]


class Answer(Strict):
    """The whole answer."""

    facts: Listed


ANSWER: Final[TypeAdapter[Answer | list[AnswerFact]]] = TypeAdapter(Answer | Listed)
"""The object that was asked for, or the list alone, which models write as well."""


def read_answer(text: str) -> list[AnswerFact] | None:
    """The facts of an answer; None if it is not what was asked for."""
    try:
        answer = ANSWER.validate_json(text)
    except ValidationError:
        return None
    return answer.facts if isinstance(answer, Answer) else answer
