"""Tasks of `bench.agent` with data: tables, JSON, logs, a database, and long outputs."""

import json
import sqlite3
import tempfile
import zlib
from pathlib import Path

from bench.agent_model import Lost, Script, View
from bench.agent_task import Tasks, answers, holds
from tests.web.pdfs import pdf

DATA = Tasks("data")

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
LONG_LOG = (
    "".join(f"{n:06} step {n} is fine\n" for n in range(40_000))
    + "040000 loading palette.dat\n040001 FATAL: no such color: mauve\n040002 giving up\n"
    + "".join(f"{n:06} idle\n" for n in range(40_003, 41_000))
)
INVOICES = {"march.pdf": ("2026-031", 410), "april.pdf": ("2026-044", 1290), "may.pdf": ("2026-058", 730)}
CITIES = 'name,people\nOslo,700000\nQuito,1900000\n"Lisbon, old town",5000\n'
TO_JSON = """\
import csv, json
rows = [{**row, 'people': int(row['people'])} for row in csv.DictReader(open('cities.csv'))]
json.dump(rows, open('cities.json', 'w'), indent=2)
print(len(rows), 'rows')
"""
STATEMENT = """\
for number in range(1, 20_001):
    print(f"{number:05} booking of day {number % 365:03}: {number * 7 % 1000}.00")
    if number == 11_111:
        print("carried over from the old account: 48213.77")
"""
TICKETS = """\
import os
stock = open("tickets.txt").read().splitlines()
os.remove("tickets.txt")
for number, ticket in enumerate(stock):
    print(f"{number:05} sold at the counter to a customer: {ticket}")
"""
TICKET_STOCK = "".join(f"T-{n:05}{'-VIP' if n == 9876 else ''}\n" for n in range(15_000))


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


def invoice(number: str, total: int) -> bytes:
    lines = b"(Invoice %s) Tj 0 -20 Td (Total due: %d EUR) Tj" % (number.encode(), total)
    return pdf([zlib.compress(b"BT /F1 12 Tf 20 200 Td " + lines + b" ET")], flate=True)


@DATA.task(
    "What are the yearly sales of each region in sales.csv?",
    answers("north 780", "south 1950", "west 546"),
    files={"sales.csv": SALES},
)
def sum_a_csv_with_awk(m: View) -> Script:
    seen = yield from m.run("head -n 3 sales.csv && wc -l < sales.csv")
    seen.find("region,month,amount")
    seen = yield from m.run(
        "awk -F, 'NR > 1 {sum[$1] += $3} END {for (r in sum) print r, sum[r]}' sales.csv | sort"
    )
    return ", ".join(f"{region} {sum}" for region, sum in seen.rows(r"^(\w+) (\d+)$"))


@DATA.task(
    "Which category of orders.csv has the highest median price?",
    answers("toys", r"16\.5"),
    files={"orders.csv": ORDERS},
)
def medians_of_a_csv(m: View) -> Script:
    seen = yield from m.run("head -n 4 orders.csv")
    seen.find("garden, tools")
    seen = yield from m.needs(f"python3 - <<'EOF'\n{MEDIAN}EOF")
    medians = {name: float(median) for name, median in seen.rows(r"^(.+) = ([\d.]+)$")}
    name = max(medians, key=lambda name: medians[name])
    return f"{name} with {medians[name]}"


@DATA.task(
    "Merge a.json and b.json into people.json by id, sorted; what b says counts.",
    lambda done: json.loads(done.text("people.json")) == [PEOPLE_A[0], PEOPLE_B[1], PEOPLE_B[0]],
    answers("3 people"),
    files={"a.json": json.dumps(PEOPLE_A), "b.json": json.dumps(PEOPLE_B)},
)
def merge_json_files(m: View) -> Script:
    seen = yield from m.run("jq -c . a.json b.json")
    seen.find("Oslo")
    seen = yield from m.run(
        "jq -s 'add | group_by(.id) | map(add)' a.json b.json > people.json && jq length people.json"
    )
    return seen.fill("people.json has {n} people.", n=r"^(\d+)$")


@DATA.task(
    "Write a Markdown table of the status codes in access.log and their number to status.md.",
    holds("status.md", "| status | requests |\n|---|---|\n| 200 | 140 |\n| 404 | 25 |\n| 500 | 5 |\n"),
    files={"access.log": ACCESS},
)
def a_table_from_a_log(m: View) -> Script:
    seen = yield from m.run("head -n 2 access.log")
    seen.find("GET")
    yield from m.needs(
        "{ echo '| status | requests |'; echo '|---|---|'; awk '{print $9}' access.log | sort | uniq -c | "
        'while read -r n status; do echo "| $status | $n |"; done; } > status.md'
    )
    seen = yield from m.run("cat status.md")
    seen.find("404")
    return "The table is in status.md."


@DATA.task(
    "Why did the program of run.log stop? What did it do just before?",
    answers("no such color: mauve", r"loading palette\.dat"),
    files={"run.log": LONG_LOG},
)
def a_failure_in_a_long_log(m: View) -> Script:
    yield from m.run("tail -n 20 run.log")
    seen = yield from m.run("grep -n -i -m 5 -E 'fatal|error' run.log")
    line = int(seen.find(r"^(\d+):"))
    seen = yield m.read("run.log", offset=line - 1, limit=3)
    return seen.fill("{why}, after {before}.", why=r"FATAL: (.+)$", before=r"(loading \S+)")


@DATA.task("Who has spent most in shop.db?", answers("carla", "610"), files={"shop.db": database()})
def ask_a_database(m: View) -> Script:
    seen = yield from m.run("sqlite3 shop.db .schema")
    seen.find("customer text, cents")
    seen = yield from m.run(
        "sqlite3 shop.db 'select customer, sum(cents)/100 from orders group by 1 order by 2 desc limit 1'"
    )
    return seen.fill("It is {who}, with {sum}.", who=r"^(\w+)\|", sum=r"\|(\d+)")


@DATA.task(
    "How much do the three invoices come to, and which one is the highest?",
    answers("2430", "2026-044"),
    files={name: invoice(*about) for name, about in INVOICES.items()},
)
def answer_from_three_pdfs(m: View) -> Script:
    seen = yield from m.run("ls *.pdf")
    seen = yield [m.read(name) for name in seen.all(r"^(\w+\.pdf)$")]
    numbers, totals = seen.all(r"Invoice (\S+)"), [int(total) for total in seen.all(r"due: (\d+)")]
    return f"{sum(totals)} EUR; the highest is {numbers[totals.index(max(totals))]}."


@DATA.task(
    "statement.py prints my account. What was carried over from the old account?",
    answers("48213.77"),
    files={"statement.py": STATEMENT},
)
def a_number_in_the_middle_of_a_long_output(m: View) -> Script:
    seen = yield from m.run("python3 statement.py")
    seen = yield from m.search(seen, "carried over", "python3 statement.py")
    return seen.fill("It was {sum}.", sum=r"carried over from the old account: ([\d.]+)")


@DATA.task(
    "Sell all tickets with sell.py (it can run only once). Which number does the VIP ticket have?",
    answers("09876"),
    files={"sell.py": TICKETS, "tickets.txt": TICKET_STOCK},
)
def an_output_that_comes_only_once(m: View) -> Script:
    seen = yield from m.run("python3 sell.py")
    if seen.failed:
        raise Lost("the tickets are not sold")
    seen = yield from m.search(seen, "VIP")
    return seen.fill("It has the number {n}.", n=r"^(?:\d+:)?(\d+) sold.*VIP")
