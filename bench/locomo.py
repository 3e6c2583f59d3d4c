"""How well the recall finds on LoCoMo: 10 long conversations of two people, 1,981 questions with evidence.

The data set (CC BY-NC 4.0) is not part of this repository: `LOCOMO=FILE` names `locomo10.json` of
https://github.com/snap-research/locomo. A turn of one person is the user's side, the other person's next turn
the answer. The share of a question's evidence turns that are shown completely is its recall. BM25 (rank-bm25)
ranks single turns by stems without stop words, and returns as many as fit into the same tokens.
"""

import json
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import snowballstemmer
from rank_bm25 import BM25Okapi

from rumi.memory.recall.following import catch_up
from rumi.memory.recall.presenting import shown
from rumi.memory.recall.search import search_passages
from rumi.memory.recall.store import RecallStore
from rumi.memory.recall.words import ENGLISH
from rumi.models.model import text_tokens
from rumi.platform.chat_ids import ChannelPrefix, ChatIds
from tests.memory.recall.states import State

IDS: Final = ChatIds((ChannelPrefix("c", "a set", groups="-"),))
BUDGETS: Final = (248, 1049)
CATEGORIES: Final = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


def text_of(turn: Mapping[str, Any]) -> str:
    """Return a turn with its speaker and the caption of its picture, as one line."""
    caption = turn.get("blip_caption")
    text = f"{turn['speaker']}: {turn['text']}{f' [shares {caption}]' if caption else ''}"
    return " ".join(text.split())


def exchanges(turns: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return what one speaker said and what the other one answered; a speaker's turns in a row are joined."""
    sides: list[list[str]] = []
    speaker = None
    for turn in turns:
        if turn["speaker"] != speaker:
            sides.append([])
        sides[-1].append(text_of(turn))
        speaker = turn["speaker"]
    lines = ["\n".join(side) for side in sides]
    return list(zip(lines[::2], [*lines[1::2], ""], strict=False))


def sessions(conversation: Mapping[str, Any]) -> list[tuple[float, list[dict[str, Any]]]]:
    """Return the sessions of a conversation with their times."""
    numbers = sorted(int(key[8:]) for key in conversation if re.fullmatch(r"session_\d+", key))
    return [
        (
            datetime.strptime(
                conversation[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y"
            ).timestamp(),
            conversation[f"session_{number}"],
        )
        for number in numbers
    ]


class Bm25:
    """BM25 over single turns: stems of lower-case words that are no stop words."""

    def __init__(self, turns: Sequence[str]) -> None:
        self._stem = snowballstemmer.stemmer("english").stemWords
        self.turns = turns
        self.costs = [text_tokens(turn) for turn in turns]
        self.index = BM25Okapi([self._words(turn) for turn in turns])

    def _words(self, text: str) -> list[str]:
        words = "".join(c if c.isalnum() else " " for c in text.lower()).split()
        return list(self._stem([word for word in words if word not in ENGLISH]))

    def ranked(self, question: str) -> list[int]:
        """Return the places of the turns, the best first."""
        scores = self.index.get_scores(self._words(question))
        return sorted(range(len(self.turns)), key=lambda place: -scores[place])

    def returned(self, ranked: Sequence[int], tokens: int) -> str:
        """Return as many of the ranked turns as fit."""
        found = []
        for place in ranked:
            if self.costs[place] <= tokens:
                found.append(self.turns[place])
                tokens -= self.costs[place]
            if tokens < 10:
                break
        return "\n".join(found)


def share(text: str, evidence: Sequence[str]) -> float:
    return sum(line in text for line in evidence) / len(evidence)


def measure(folder: Path, file: Path) -> None:
    """Print the table."""
    data = json.loads(file.read_text(encoding="utf-8"))
    state = State(folder / "locomo-state.db")
    with state.at_once():
        for number, item in enumerate(data):
            for session, (at, turns) in enumerate(sessions(item["conversation"]), start=1):
                for place, (said, answered) in enumerate(exchanges(turns)):
                    state.add_turn(f"c{number}", said, answered, at=at + 60 * place, session=session)
    store = RecallStore(folder / "locomo.db", state.path, lambda: state.now + 7 * 86_400)
    while store.do(catch_up(IDS)):
        pass
    rows: dict[tuple[str, int], list[tuple[float, float, int]]] = defaultdict(list)
    times, twice = [], 0
    for number, item in enumerate(data):
        of_sessions = [turns for _, turns in sessions(item["conversation"])]
        lines = {turn["dia_id"]: text_of(turn) for of_session in of_sessions for turn in of_session}
        plain = Bm25(list(lines.values()))
        for question in item["qa"]:
            ids = {id for ids in question["evidence"] for id in re.findall(r"D\d+:\d+", ids)}
            evidence = [lines[id] for id in sorted(ids) if id in lines]
            if not evidence:
                continue
            ranked = plain.ranked(question["question"])
            for budget in BUDGETS:
                began = time.perf_counter()
                found = store.do(search_passages(f"c{number}", question["question"], tokens=budget))
                times.append((time.perf_counter() - began) * 1000)
                text = shown("en", found)
                tokens = text_tokens(text)
                assert tokens <= budget, (tokens, budget)
                twice += len(found) - len({(passage.chat, passage.turn, passage.kind) for passage in found})
                row = share(text, evidence), share(plain.returned(ranked, budget), evidence), tokens
                part = f"conversations {'1, 3, 5, 7, 9' if number % 2 == 0 else '2, 4, 6, 8, 10'}"
                for group in ("all", part, CATEGORIES[question["category"]]):
                    rows[group, budget].append(row)
    print("LoCoMo              questions" + "".join(f"{budget:>9} tokens   BM25" for budget in BUDGETS))
    for group in dict.fromkeys(group for group, _ in rows):
        cells = ""
        for budget in BUDGETS:
            mine, other, _ = zip(*rows[group, budget], strict=True)
            cells += f"{100 * statistics.fmean(mine):14.1f} % {100 * statistics.fmean(other):5.1f} %"
        print(f"{group:<29}{len(rows[group, BUDGETS[0]]):>5}{cells}")
    used = [statistics.fmean(tokens for *_, tokens in rows["all", budget]) for budget in BUDGETS]
    print(
        "tokens used: "
        + ", ".join(f"{tokens:.0f} of {budget}" for tokens, budget in zip(used, BUDGETS, strict=True))
    )
    times.sort()
    print(
        f"shown twice: {twice}; a search: p50 {times[len(times) // 2]:.1f} ms,"
        f" p99 {times[int(len(times) * 0.99)]:.1f} ms\n"
    )
    store.close()
