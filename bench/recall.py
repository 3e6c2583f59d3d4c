"""How well and how fast the recall finds: a hand-made set beside plain BM25, and 100,000 generated exchanges.

The set is in `bench/data/recall`: conversations of 20 people, and questions with the exchange that answers
each. Half of the questions share no content word with their answer; conversations 11 to 20 were set apart
before any constant of the ranking was chosen. BM25 (rank-bm25) returns whole turns for as many tokens as the
recall's answer has. A question counts as answered if what the user said in its exchange is returned.
With `LOCOMO=FILE`, LoCoMo's questions are asked too (`bench.locomo`).
"""

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rank_bm25 import BM25Okapi

from bench import locomo
from rumi.memory.recall.following import catch_up
from rumi.memory.recall.messages import Passage
from rumi.memory.recall.presenting import shown
from rumi.memory.recall.search import count_passages, search_passages
from rumi.memory.recall.store import RecallStore
from rumi.memory.recall.words import ENGLISH, language_of, plain_words, says_something
from rumi.models.model import text_tokens
from rumi.platform.chat_ids import ChannelPrefix, ChatIds
from tests.memory.recall.states import State

DATA = Path(__file__).parent / "data" / "recall"
IDS = ChatIds((ChannelPrefix("c", "a set", groups="-"), ChannelPrefix("g", "generated", groups="-")))
EXCHANGES = 100_000
BUDGETS = (250, 500, 1_000)
QUERIES = 400


@dataclass(frozen=True)
class Turn:
    conversation: str
    number: int
    session: int
    at: float
    user: str
    assistant: str

    @property
    def text(self) -> str:
        return f"{self.user}\n{self.assistant}"


@dataclass(frozen=True)
class Question:
    conversation: str
    answer: int
    kind: str
    part: str
    question: str


def read_set() -> tuple[dict[str, list[Turn]], list[Question]]:
    """Return the turns of each conversation, and the questions."""
    turns: dict[str, list[Turn]] = {}
    for line in (DATA / "conversations.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        at = datetime.fromisoformat(row.pop("at")).timestamp()
        turns.setdefault(row["conversation"], []).append(Turn(at=at, **row))
    lines = (DATA / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return turns, [Question(**json.loads(line)) for line in lines]


def spoken(text: str) -> str:
    """Return the language of a text."""
    return "es" if set(text) & set("¿áéíóúñ") else language_of(plain_words(text))


def content(text: str) -> set[str]:
    """Return the words of a text that say something, as they are written but for case and accents."""
    return set(filter(says_something, plain_words(text)))


class Bm25:
    """Plain BM25 over turns: lower case, words between blanks and signs."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = turns
        self.index = BM25Okapi([self.words(turn.text) for turn in turns])

    @staticmethod
    def words(text: str) -> list[str]:
        return "".join(c if c.isalnum() else " " for c in text.lower()).split()

    def returned(self, question: str, tokens: int) -> list[Turn]:
        """Return the best turns that take so many tokens, and one more."""
        scores = self.index.get_scores(self.words(question))
        found = []
        for index in sorted(range(len(self.turns)), key=lambda place: -scores[place]):
            found.append(self.turns[index])
            tokens -= text_tokens(self.turns[index].text)
            if tokens <= 0:
                break
        return found


def answered(passages: Sequence[Passage], turn: Turn) -> bool:
    text = " ".join(passage.said for passage in passages)
    return " ".join(turn.user.split()) in " ".join(text.split())


def compare(
    store: RecallStore, turns: dict[str, list[Turn]], questions: Sequence[Question], tokens: int
) -> list[tuple[bool, bool]]:
    """Return for each question whether the recall and BM25 answer it."""
    plain = {name: Bm25(turn_list) for name, turn_list in turns.items()}
    results = []
    for question in questions:
        found = store.do(search_passages(question.conversation, question.question, tokens=tokens))
        turn = turns[question.conversation][question.answer]
        others = plain[question.conversation].returned(question.question, text_tokens(shown("en", found)))
        results.append((answered(found, turn), turn in others))
    return results


def rate(results: Sequence[bool]) -> str:
    return f"{100 * statistics.fmean(results):5.1f} %" if results else "     - "


def hand_made(folder: Path) -> None:
    turns, questions = read_set()
    state = State(folder / "set-state.db")
    for said in (turn for conversation in turns.values() for turn in conversation):
        state.add_turn(said.conversation, said.user, said.assistant, at=said.at, session=said.session)
    latest = max(turn.at for turn_list in turns.values() for turn in turn_list)
    store = RecallStore(folder / "set.db", state.path, lambda: latest + 7 * 86_400)
    follow(store)
    other = {q: not content(q.question) & content(turns[q.conversation][q.answer].text) for q in questions}
    print(
        f"{len(turns)} conversations, {sum(map(len, turns.values()))} exchanges, {len(questions)} questions,"
    )
    print(f"{sum(other.values())} of them without a content word of their answer\n")
    tongue = {name: spoken(" ".join(turn.text for turn in turn_list)) for name, turn_list in turns.items()}
    groups: dict[str, Callable[[Question], bool]] = {
        "all": lambda q: True,
        "tuned on": lambda q: q.part == "tuned",
        "untouched": lambda q: q.part == "untouched",
        "no content word in common": lambda q: other[q],
        "same, untouched": lambda q: other[q] and q.part == "untouched",
        "asked in the other language": lambda q: spoken(q.question) != tongue[q.conversation],
        "same language, untouched": lambda q: (
            spoken(q.question) == tongue[q.conversation] and q.part == "untouched"
        ),
        "same language, no word in common": lambda q: (
            spoken(q.question) == tongue[q.conversation] and other[q]
        ),
        **{kind: (lambda q, kind=kind: q.kind == kind) for kind in dict.fromkeys(q.kind for q in questions)},
    }
    for tokens in BUDGETS:
        results = dict(zip(questions, compare(store, turns, questions, tokens), strict=True))
        print(f"{f'in {tokens} tokens':<29} questions   recall     BM25")
        for name, belongs in groups.items():
            rows = [results[q] for q in questions if belongs(q)]
            print(f"{name:<29} {len(rows):9}  {rate([r for r, _ in rows])}  {rate([b for _, b in rows])}")
        print()
        if "-v" in sys.argv:
            for q, (mine, _) in results.items():
                if not mine and q.part == "tuned":
                    print(
                        f"  {q.conversation} {q.kind}: {q.question} -> {turns[q.conversation][q.answer].user}"
                    )
    store.close()


def generated(count: int) -> Iterator[tuple[str, str]]:
    """Yield exchanges of made-up words with the frequencies of natural ones, and a new name in every fifth.

    As in natural text, a bit less than half of the words say nothing by themselves.
    """
    random_ = random.Random(7)
    fillers = sorted(ENGLISH)
    syllables = [a + b for a in "bcdfglmnprstv" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]
    words = ["".join(random_.choices(syllables, k=random_.choice((2, 2, 3, 3, 4)))) for _ in range(40_000)]
    weights = [1 / (rank + 8) for rank in range(len(words))]
    total = 0.0
    sums = [total := total + weight for weight in weights]
    for number in range(count):
        picked = random_.choices(words, cum_weights=sums, k=random_.randint(20, 60))
        picked = [random_.choice(fillers) if random_.random() < 0.45 else word for word in picked]
        cut = random_.randint(6, len(picked) - 6)
        name = f" n{number}" if number % 5 == 0 else ""
        yield f"{' '.join(picked[:cut])}{name}", " ".join(picked[cut:])


def follow(store: RecallStore) -> None:
    while store.do(catch_up(IDS)):
        pass


def large(folder: Path, count: int) -> None:
    state = State(folder / "large-state.db")
    text, samples = 0, []
    random_ = random.Random(11)
    with state.at_once():
        for number, (user, assistant) in enumerate(generated(count)):
            state.add_turn("g1", user, assistant, at=1.7e9 + number * 600, session=number // 20)
            text += len(user.encode()) + len(assistant.encode())
            if random_.random() < 2 * QUERIES / count:
                words = list(filter(says_something, user.split()))
                samples += [" ".join(random_.sample(words, k=5))] if len(words) >= 5 else []
    path = folder / "large.db"
    store = RecallStore(path, state.path, lambda: 1.7e9 + count * 600)
    began = time.perf_counter()
    follow(store)
    took = time.perf_counter() - began
    size = sum(entry.stat().st_size for entry in folder.glob("large.db*"))
    times, cpu = [], []
    for query in samples[:QUERIES]:
        began, used = time.perf_counter(), time.thread_time()
        store.do(search_passages("g1", query))
        times.append((time.perf_counter() - began) * 1000)
        cpu.append((time.thread_time() - used) * 1000)
    times.sort()
    cpu.sort()
    print(f"{store.do(count_passages()):,} exchanges of {text / 1e6:.1f} MB text, indexed in {took:.0f} s")
    print(f"index: {size / 1e6:.1f} MB, {size / text:.2f} times the text")
    p = [times[int(len(times) * share)] for share in (0.5, 0.9, 0.99)]
    print(
        f"a query of five words: p50 {p[0]:.1f} ms, p90 {p[1]:.1f} ms, p99 {p[2]:.1f} ms"
        f" ({len(times)} queries); of the processor p99 {cpu[int(len(cpu) * 0.99)]:.1f} ms"
    )
    store.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if "--large" not in sys.argv:
            hand_made(Path(folder))
            if file := os.environ.get("LOCOMO"):
                locomo.measure(Path(folder), Path(file))
        if "--small" not in sys.argv:
            large(Path(folder), EXCHANGES)


if __name__ == "__main__":
    main()
