"""Sixty short conversations, what a model answers about them, and what is known afterwards.

A row has what the user says, what is known before, the model's facts (`key: value`, with `<- key` for the one
that it replaces), and what is known afterwards: `=` is what the model says. A `!` marks a stated fact.
"""

import json
from datetime import date
from pathlib import Path
from typing import TypeAlias

import pytest

from rumi.memory.extractor import extract
from rumi.memory.messages import NewFact
from rumi.memory.rows import facts_of, remember_fact, store_extracted
from rumi.memory.store import MemoryStore
from rumi.models.model import Message
from rumi.platform.chat_ids import LOCAL as OWNER
from rumi.texts import Language
from tests.memory.test_extractor import Says

TODAY = date(2026, 11, 23)

Row: TypeAlias = tuple[str, str, str, str]

LEARNED: list[Row] = [
    ("Hi, I am Ana and I live in Rosario", "", "name: Ana; city: lives in Rosario", "="),
    ("Soy Juan, trabajo de electricista", "", "nombre: Juan; trabajo: es electricista", "="),
    ("We have two cats, Mia and Leo", "", "cats: has 2 cats, Mia and Leo", "="),
    ("Tengo una hija, Sofía, de 7 años", "", "hija: Sofía, de 7 años", "="),
    ("please answer me in short sentences from now on", "", "answers: wants short sentences", "="),
    ("Prefiero que me respondas en inglés", "", "respuestas: prefiere que le respondan en inglés", "="),
    ("I'm vegetarian and I don't eat mushrooms", "", "diet: vegetarian, eats no mushrooms", "="),
    ("Soy vegetariana desde 2015", "", "dieta: vegetariana desde 2015", "="),
    ("I speak Spanish, English and a bit of Danish", "", "languages: Spanish, English, some Danish", "="),
    ("Estudio medicina en la UBA", "", "estudios: estudia medicina en la UBA", "="),
    ("My sister Eva is a nurse", "", "sister: Eva, a nurse", "="),
    ("Mi mail es ana@correo.example", "", "mail: ana@correo.example", "="),
    ("I get up at 6 and go running", "", "mornings: gets up at 6 and goes running", "="),
    ("Me gusta el mate amargo", "", "mate: le gusta amargo", "="),
    ("I use Linux, Debian 12", "", "computer: uses Debian 12", "="),
    ("Me llamo Cristian y soy médico", "", "nombre: Cristian; trabajo: es médico", "="),
    ("東京に住んでいます", "", "都市: 東京", "="),
    # Dates
    ("I am getting married next year", "", "wedding: is getting married in 2027", "="),
    ("Me recibo de abogada el año que viene", "", "estudios: se recibe de abogada en 2027", "="),
    ("My birthday is tomorrow", "", "birthday: November 24", "="),
    ("Mañana es mi cumpleaños", "", "cumpleaños: 24 de noviembre", "="),
    ("I moved here three years ago", "", "home: moved here in 2023", "="),
    ("Hace 10 años que vivo en Salta", "", "ciudad: vive en Salta desde 2016", "="),
    ("El mes que viene empiezo en Acme", "", "trabajo: empieza en Acme en 12/2026", "="),
    # Remembered because the user says so
    ("Remember that I am allergic to penicillin", "", "allergy: allergic to penicillin", "="),
    ("Recordá que soy diabético", "", "salud: es diabético", "="),
    ("Please keep in mind that I am Jewish and eat kosher", "", "religion: Jewish, eats kosher", "="),
    ("No te olvides: soy celíaca", "", "dieta: es celíaca", "="),
]  # fmt: skip

REPLACED: list[Row] = [
    ("I moved to Lima", "city: lives in Rosario", "city: lives in Lima <- city", "city: lives in Lima"),
    ("Me mudé a Córdoba", "ciudad: vive en Rosario",
     "ciudad: vive en Córdoba <- ciudad", "ciudad: vive en Córdoba"),
    ("I live in Lima now", "home: lives in Rosario", "city: lives in Lima <- Home", "city: lives in Lima"),
    ("Cambié de trabajo: ahora soy docente", "trabajo: es electricista",
     "trabajo: es docente <- trabajo", "trabajo: es docente"),
    ("we got a third cat, Zoe", "cats: has 2 cats; dog: Toto",
     "cats: has 3 cats, one is Zoe <- cats", "cats: has 3 cats, one is Zoe; dog: Toto"),
    ("Ya no fumo", "tabaco: fuma", "tabaco: no fuma <- tabaco", "tabaco: no fuma"),
    ("I stopped being vegetarian, I eat fish", "diet: vegetarian",
     "diet: eats fish <- DIET", "diet: eats fish"),
    ("Mi mail nuevo es eva@nuevo.example", "mail: eva@viejo.example",
     "mail: eva@nuevo.example <- mail", "mail: eva@nuevo.example"),
    # Replaces nothing that is not there
    ("I live in Lima", "dog: Toto", "city: lives in Lima <- city", "city: lives in Lima; dog: Toto"),
    ("Vivo en Lima", "", "ciudad: vive en Lima <- domicilio", "ciudad: vive en Lima"),
    # Nor where several facts have the key, or another key is meant that the user has stated
    ("Leo died, now we have Zoe", "cat: Mia; cat: Leo", "cat: Zoe <- cat", "cat: Mia; cat: Leo; cat: Zoe"),
    ("I live in Lima", "name: Ana!", "city: lives in Lima <- name", "name: Ana; city: lives in Lima"),
    ("I moved to Lima", "city: lives in Rosario!", "city: lives in Lima <- city", "city: lives in Lima"),
]  # fmt: skip

REJECTED: list[Row] = [
    ("What is the capital of France?", "", "city: Paris", ""),
    ("Traducí: me llamo María y vivo en Quito", "nombre: Ana", "", "nombre: Ana"),
    ("I am so tired", "", "mood: is tired", ""),
    ("Hoy estoy en Rosario", "", "lugar: está hoy en Rosario", ""),
    ("I work from home this week", "", "work: works from home this week", ""),
    ("my password is hunter2", "", "password: hunter2", ""),
    ("La clave del wifi es Tigre2024", "", "wifi: la clave es Tigre2024", ""),
    ("My card is 4111 1111 1111 1111", "", "card: 4111 1111 1111 1111", ""),
    ("read that page for me", "", "employer: works at Evil Corp", ""),
    ("I live in Rosario", "city: Lives in  ROSARIO",
     "city: lives in Rosario <- city", "city: Lives in  ROSARIO"),
    ("I am getting married", "", "wedding: is getting married in 2027", ""),
    ("I am getting married next year", "", "wedding: is getting married in 2028", ""),
    ("Me mudé a Lima", "ciudad: vive en Rosario",
     "ciudad: vive en Quito <- ciudad", "ciudad: vive en Rosario"),
    # Health, religion and the like without a word that asks to remember
    ("I am allergic to penicillin", "", "allergy: allergic to penicillin", ""),
    ("Soy diabético, ¿qué puedo comer?", "", "salud: es diabético", ""),
    ("I am a Christian and go to church on Sundays", "", "religion: is a Christian", ""),
    ("Soy católica, ¿qué misa hay cerca?", "", "religión: es católica", ""),
    ("As a gay man I wonder where to travel", "", "about: is gay", ""),
    ("Voto a los socialistas", "", "política: vota a los socialistas", ""),
    ("Do you remember that I am diabetic? | Remember that my dog is Toto", "",
     "health: diabetic; dog: Toto", "dog: Toto"),
]  # fmt: skip


def facts_in(text: str) -> list[tuple[str, str, str]]:
    found = []
    for part in filter(None, text.split("; ")):
        fact, _, replaces = part.partition(" <- ")
        key, _, value = fact.partition(": ")
        found.append((key, value, replaces))
    return found


def test_there_are_sixty_and_more() -> None:
    assert len([*LEARNED, *REPLACED, *REJECTED]) >= 60


@pytest.mark.parametrize("row", [*LEARNED, *REPLACED, *REJECTED], ids=lambda row: row[0][:40])
async def test_what_is_known_after_a_conversation(tmp_path: Path, row: Row) -> None:
    said, before, answer, after = row
    after = answer if after == "=" else after
    store = MemoryStore(tmp_path / "memory.db", lambda: 1000.0)
    for number, (key, value, _) in enumerate(facts_in(before)):
        if value.endswith("!"):
            store.do(remember_fact(OWNER, NewFact(key, value.rstrip("!"))))
        else:
            store.do(store_extracted(OWNER, "cli", 1, number + 1, (NewFact(key, value),)))
    store.do(remember_fact("tg7", NewFact("city", "lives in Rosario")))
    known = store.do(facts_of(OWNER))
    facts = [{"key": key, "value": value, "replaces": old or None} for key, value, old in facts_in(answer)]
    messages = [Message("user", text) for text in said.split(" | ")]
    language: Language = "es" if any(c in said for c in "áéíóúñ¿") else "en"
    found = (await extract(Says(json.dumps({"facts": facts})), language, messages, known, TODAY)).facts
    store.do(store_extracted(OWNER, "cli", 2, 100, found))
    assert {(fact.key, fact.value) for fact in store.do(facts_of(OWNER))} == {
        (key, " ".join(value.rstrip("!").split())) for key, value, _ in facts_in(after)
    }
    assert [fact.value for fact in store.do(facts_of("tg7"))] == ["lives in Rosario"]
    store.close()
