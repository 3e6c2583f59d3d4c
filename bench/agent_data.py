"""Tasks of `bench.agent` with data: tables, logs, a database, and what many files contain."""

import json
import sqlite3
import tempfile
from pathlib import Path

from bench.agent_work import Seen, after, python, read, says, sh, task, write

SALES = "region,month,amount\n" + "".join(
    f"{region},2026-{month:02},{month * factor}\n"
    for region, factor in (("north", 10), ("south", 25), ("west", 7))
    for month in range(1, 13)
)
ORDERS = "order,category,price\n" + "".join(
    f'{n},"{("books", "garden, tools", "toys")[n % 3]}",{n % 3 * 4 + n % 17}.50\n' for n in range(300)
)
MEDIAN = """\
import csv, statistics
prices = {}
for row in csv.DictReader(open('orders.csv')):
    prices.setdefault(row['category'], []).append(float(row['price']))
for name in sorted(prices):
    print(name, '=', statistics.median(prices[name]))
"""
PEOPLE_A = [{"id": 1, "name": "Ana"}, {"id": 2, "name": "Bruno"}]
PEOPLE_B = [{"id": 3, "name": "Carla"}, {"id": 2, "name": "Bruno", "city": "Oslo"}]
MAILS = {
    f"mail/{n}.txt": f"From: person{n % 7}@example.org\nTo: me@example.com\n\nAsk help{n % 3}@site.example!\n"
    for n in range(30)
}
FOUND_MAILS = sorted(
    {"me@example.com"}
    | {f"person{n}@example.org" for n in range(7)}
    | {f"help{n}@site.example" for n in range(3)}
)
ACCESS = "".join(
    f'10.0.0.{n % 9} - - [03/Mar/2026:10:{n % 60:02}:00 +0000] "GET /p{n % 5} HTTP/1.1" {status} 512\n'
    for n, status in enumerate([200] * 140 + [404] * 25 + [500] * 5)
)
ERRORS = "".join(
    f"2026-03-0{1 + n // 400} {n % 24:02}:{n % 60:02} {'ERROR' if n % 50 == 7 else 'INFO'} worker {n % 4}: "
    f"{'disk full' if n % 50 == 7 else 'done'}\n"
    for n in range(1200)
)
LONG_LOG = (
    "".join(f"{n:06} step {n} is fine\n" for n in range(40_000))
    + "040000 loading palette.dat\n040001 FATAL: no such color: mauve\n040002 giving up\n"
    + "".join(f"{n:06} idle\n" for n in range(40_003, 41_000))
)
STORY = "The cat saw the dog. The dog saw a bird, and the bird saw the sea: the sea!\n" * 20


def database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        with sqlite3.connect(path) as base:
            base.execute("create table orders (id integer primary key, customer text, cents integer)")
            base.executemany(
                "insert into orders (customer, cents) values (?, ?)",
                [(("ana", "bruno", "carla")[n % 3], 100 * n) for n in range(60)],
            )
        base.close()
        return path.read_bytes()


def table(seen: Seen) -> str:
    """Make a Markdown table of what `uniq -c` has counted."""
    rows = (line.split() for line in seen.find(r"output:\n(.+)").splitlines())
    return "| status | requests |\n|---|---|\n" + "".join(f"| {status} | {n} |\n" for n, status in rows)


TASKS = (
    task(
        "summarize a CSV with awk",
        "What are the yearly sales of each region in sales.csv?",
        [
            sh("head -n 3 sales.csv"),
            after(
                "region,month,amount",
                sh("awk -F, 'NR > 1 {sum[$1] += $3} END {for (r in sum) print r, sum[r]}' sales.csv"),
            ),
            says(
                "North {n}, south {s}, west {w}.",
                n=r"north (\d+)",
                s=r"south (\d+)",
                w=r"west (\d+)",
            ),
        ],
        [
            read("sales.csv", limit=3),
            after(
                "region,month,amount",
                sh("awk -F, 'NR > 1 {sum[$1] += $3} END {for (r in sum) print r, sum[r]}' sales.csv"),
            ),
            says(
                "North {n}, south {s}, west {w}.",
                n=r"north (\d+)",
                s=r"south (\d+)",
                w=r"west (\d+)",
            ),
        ],
        check=lambda _, answer: answer == "North 780, south 1950, west 546.",
        input_files={"sales.csv": SALES},
    ),
    task(
        "medians of a CSV",
        "Which category of orders.csv has the highest median price?",
        [
            sh("head -n 4 orders.csv"),
            after("garden, tools", python(MEDIAN)),
            says(
                "Books {b}, garden tools {g}, toys {t}.",
                b=r"books = ([\d.]+)",
                g=r"tools = ([\d.]+)",
                t=r"toys = ([\d.]+)",
            ),
        ],
        check=lambda _, answer: answer == "Books 8.5, garden tools 12.5, toys 16.5.",
        input_files={"orders.csv": ORDERS},
    ),
    task(
        "merge JSON files",
        "Merge a.json and b.json into people.json by id, sorted; what b says counts.",
        [
            sh("head a.json b.json"),
            after(
                "Oslo",
                sh(
                    "jq -s 'add | group_by(.id) | map(add)' a.json b.json > people.json && "
                    "jq length people.json"
                ),
            ),
            says("people.json has {n} people.", n=r"output:\n(\d+)"),
        ],
        check=lambda folder, answer: (
            json.loads((folder / "people.json").read_text()) == [PEOPLE_A[0], PEOPLE_B[1], PEOPLE_B[0]]
            and "3 people" in answer
        ),
        input_files={"a.json": json.dumps(PEOPLE_A), "b.json": json.dumps(PEOPLE_B)},
    ),
    task(
        "extract e-mail addresses",
        "Collect all e-mail addresses of the folder mail in addresses.txt, sorted, each once.",
        [
            sh(
                "grep -rhoE '[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)+' mail | sort -u > "
                "addresses.txt && wc -l addresses.txt"
            ),
            says("{n} addresses.", n=r"(\d+) addresses"),
        ],
        check=lambda folder, answer: (
            (folder / "addresses.txt").read_text().split() == FOUND_MAILS
            and answer == f"{len(FOUND_MAILS)} addresses."
        ),
        input_files=MAILS,
    ),
    task(
        "build a table from a log",
        "Write a Markdown table of the status codes in access.log and their number to status.md.",
        [
            sh("head -n 2 access.log"),
            after("GET", sh("awk '{print $9}' access.log | sort | uniq -c | sort -rn")),
            lambda seen: sh("tee status.md", table(seen)),
            "The table is in status.md.",
        ],
        [
            read("access.log", limit=2),
            after("GET", sh("awk '{print $9}' access.log | sort | uniq -c | sort -rn")),
            lambda seen: write("status.md", table(seen)),
            "The table is in status.md.",
        ],
        check=lambda folder, _: (
            (folder / "status.md").read_text()
            == "| status | requests |\n|---|---|\n| 200 | 140 |\n| 404 | 25 |\n| 500 | 5 |\n"
        ),
        input_files={"access.log": ACCESS},
    ),
    task(
        "count errors by day",
        "How many errors are in app.log on each day?",
        [
            sh("grep ERROR app.log | cut -d ' ' -f 1 | uniq -c"),
            says(
                "{one} on the first, {two} on the second, {three} on the third of March.",
                one=r"(\d+) 2026-03-01",
                two=r"(\d+) 2026-03-02",
                three=r"(\d+) 2026-03-03",
            ),
        ],
        check=lambda _, answer: answer == "8 on the first, 8 on the second, 8 on the third of March.",
        input_files={"app.log": ERRORS},
    ),
    task(
        "find a failure in a long log",
        "Why did the program of run.log stop? What did it do just before?",
        [
            sh("grep -n -i -B 1 -A 1 -E 'fatal|error' run.log"),
            says("{why}, after {before}.", why=r"FATAL: ([^\n]+)", before=r"-\d+ (loading \S+)"),
        ],
        [
            sh("grep -n -i -E 'fatal|error' run.log"),
            lambda seen: read("run.log", offset=int(seen.find(r"(\d+):\d+ FATAL")) - 1, limit=3),
            says("{why}, after {before}.", why=r"FATAL: ([^\n]+)", before=r"\d+ (loading \S+)"),
        ],
        check=lambda _, answer: answer == "no such color: mauve, after loading palette.dat.",
        input_files={"run.log": LONG_LOG},
    ),
    task(
        "count words",
        "Which are the three most frequent words of story.txt?",
        [
            sh("tr -cs '[:alpha:]' '\\n' < story.txt | tr A-Z a-z | sort | uniq -c | sort -rn | head -n 3"),
            says("{one}, {two}", one=r"\d+ (\w+)\n", two=r"\d+ \w+\n\s*\d+ (\w+)"),
        ],
        check=lambda _, answer: answer == "the, saw",
        input_files={"story.txt": STORY},
    ),
    task(
        "ask a database",
        "Who has spent most in shop.db?",
        [
            sh("sqlite3 shop.db .schema"),
            after(
                "customer text, cents",
                sh(
                    "sqlite3 shop.db 'select customer, sum(cents)/100 from orders group by 1 order by 2 "
                    "desc limit 1'"
                ),
            ),
            says("It is {who}, with {sum}.", who=r"(\w+)\|", sum=r"\|(\d+)"),
        ],
        check=lambda _, answer: answer == "It is carla, with 610.",
        input_files={"shop.db": database()},
    ),
)
