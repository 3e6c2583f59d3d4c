"""Writes to a memory without end, and says what was confirmed."""

import sys
from pathlib import Path

from rumi.memory.messages import NewFact
from rumi.memory.rows import remember_fact, store_extracted
from rumi.memory.store import MemoryStore
from rumi.platform.chat_ids import LOCAL


def main(path: Path) -> None:
    store = MemoryStore(path)
    number = 0
    while number < 150:
        number += 1
        store.do(remember_fact(LOCAL, NewFact(f"key {number}", f"said {number}")))
        print(f"said {number}", flush=True)
        heard = tuple(NewFact(f"key {number}", f"heard {number} {part}") for part in range(5))
        store.do(store_extracted(LOCAL, "cli", 1, number, heard))
        print(f"learned {number}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
