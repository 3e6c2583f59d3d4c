"""Tasks of `bench.agent` at the shell: loops, pipes, heredocs, `timeout`; and lines that are refused."""

import io
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from bench.agent_model import Lost, Script, View
from bench.agent_task import Tasks, answers, holds, names, same_files

SHELL, REFUSED = Tasks("shell"), Tasks("refused")

DAYS = {f"IMG_{number:04}.jpg": 1_767_225_600 + number * 40_000 for number in range(120)}
PLACES = ("lisbon", "oslo", "quito")
GUESTS = {"Ana": "Friday", "Bruno": "Saturday", "Carla": "Sunday", "Diego": "Friday"}
TALKS = {f"docs/page{n:02}.md": f"Page {n} of Larch.\nWe love Larch; larches too.\n" for n in range(40)}
FILL = """\
import csv
from pathlib import Path

text = Path("letter.txt").read_text()
Path("letters").mkdir(exist_ok=True)
for row in csv.DictReader(open("guests.csv")):
    letter = text
    for key, value in row.items():
        letter = letter.replace("{{" + key + "}}", value)
    Path(f"letters/{row['name'].lower()}.txt").write_text(letter)
"""
SEARCH = """\
import sys

number, found = int(sys.argv[1]), 0
while found != number:
    found += 7
print("steps:", found // 7)
"""
SETTINGS = "export PORT=8123\nexport HOST=0.0.0.0\n"
STOCK = "item,count,price\n" + "".join(f"item{n},{n % 7},{n}.5\n" for n in range(1, 60))
COUNT = """\
rows = [line.split(",") for line in open("stock.csv").read().splitlines()[1:]]
print("worth:", sum(int(count) * float(price) for _, count, price in rows))
"""
WORTH = sum(n % 7 * (n + 0.5) for n in range(1, 60))
MONTHS = {"jan": 12, "feb": 19, "mar": 7}


def tar(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(text)
            archive.addfile(about, io.BytesIO(text.encode()))
    return packed.getvalue()


def zipped(path: Path, name: str) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name).decode()


def day(name: str) -> str:
    return datetime.fromtimestamp(DAYS[name], UTC).strftime("%Y-%m-%d")


@SHELL.task(
    "Fill letter.txt for each guest of guests.csv, as letters/name.txt.",
    lambda done: all(
        done.text(f"letters/{name.lower()}.txt") == f"Dear {name},\nsee you on {on}.\n"
        for name, on in GUESTS.items()
    ),
    answers("4 letters"),
    files={
        "letter.txt": "Dear {{name}},\nsee you on {{day}}.\n",
        "guests.csv": "name,day\n" + "".join(f"{name},{on}\n" for name, on in GUESTS.items()),
    },
)
def fill_a_letter(m: View) -> Script:
    seen = yield from m.run("cat letter.txt guests.csv | head -n 20")
    seen.find("{{day}}")
    seen = yield from m.run(
        f"cat > fill.py <<'EOF'\n{FILL}EOF\npython3 fill.py && ls letters | wc -l; rm fill.py"
    )
    return seen.fill("{n} letters are in letters/.", n=r"^(\d+)$")


@SHELL.task(
    "Rename my photos, like IMG_0012.jpg, to the day they were taken and the number, like "
    "2026-01-05_0012.jpg. The file times are right, in UTC.",
    lambda done: names(done.folder) == {f"{day(name)}_{name[4:]}" for name in DAYS},
    answers("120"),
    files=dict.fromkeys(DAYS, b"\xff\xd8\xff"),
    times=DAYS,
)
def rename_by_date(m: View) -> Script:
    yield from m.run("ls -l --time-style=long-iso | head -n 5")
    yield from m.needs(
        'for f in IMG_*.jpg; do d=$(date -u -r "$f" +%F) && '
        'mv -n "$f" "${d}_${f#IMG_}" || echo "failed: $f"; done'
    )
    seen = yield from m.run("ls | head -n 3; ls | wc -l")
    return seen.fill("Done: {n} photos.", n=r"^(\d+)$")


@SHELL.task(
    "Unpack site.tar.gz, put 2026 in place of 2025 in its footer.html, and make site.zip of all of it.",
    lambda done: zipped(done.folder / "site.zip", "site/footer.html") == "<p>(c) 2026 Ana</p>\n",
    lambda done: zipped(done.folder / "site.zip", "site/index.html") == "<h1>Since 2025</h1>\n",
    files={
        "site.tar.gz": tar(
            {"site/index.html": "<h1>Since 2025</h1>\n", "site/footer.html": "<p>(c) 2025 Ana</p>\n"}
        )
    },
)
def unpack_and_repack(m: View) -> Script:
    seen = yield from m.run("tar -xvzf site.tar.gz && cat site/footer.html")
    seen.find("2025")
    yield from m.needs(
        "sed -i 's/2025/2026/' site/footer.html && zip -qr site.zip site || echo 'exit code 1: zip'"
    )
    seen = yield from m.run("unzip -p site.zip site/footer.html")
    return seen.fill("site.zip is there, with {year}.", year=r"c\) (\d+)")


@SHELL.task(
    "Call it Rowan instead of Larch in all docs.",
    same_files({name: text.replace("Larch", "Rowan") for name, text in TALKS.items()}),
    answers("40"),
    files=TALKS,
)
def replace_a_word_in_40_files(m: View) -> Script:
    yield from m.run("grep -rc '\\bLarch\\b' docs | head -n 3")
    yield from m.needs("grep -rl '\\bLarch\\b' docs | xargs sed -i 's/\\bLarch\\b/Rowan/g'")
    seen = yield from m.run("grep -rl '\\bLarch\\b' docs || grep -rl Rowan docs | wc -l")
    return seen.fill("Changed in {n} files.", n=r"^(\d+)$")


@SHELL.task(
    "Some text files below src have Windows line ends. Change them to Unix ones.",
    same_files(
        {"src/a.txt": "one\ntwo\n", "src/b.txt": "one\ntwo\n", "src/c d.txt": "x\n", "src/pic": b"\0\r\n"}
    ),
    files={
        "src/a.txt": "one\ntwo\n",
        "src/b.txt": "one\r\ntwo\r\n",
        "src/c d.txt": "x\r\n",
        "src/pic": b"\0\r\n",
    },
)
def fix_line_ends(m: View) -> Script:
    seen = yield from m.run("find src -type f -exec file {} + | grep CRLF || grep -rlI $'\\r' src")
    seen.find("b.txt")
    yield from m.needs(
        "grep -rlIZ $'\\r' src | while IFS= read -r -d '' f; do sed -i 's/\\r$//' \"$f\"; done"
    )
    seen = yield from m.run("grep -rlI $'\\r' src || echo clean")
    seen.find("^clean$")
    return "Done."


@SHELL.task(
    "How many steps does search.py take for 700, and for 701? Give it no more than a second.",
    answers("700: 100", "701: none"),
    files={"search.py": SEARCH},
)
def give_a_program_a_second(m: View) -> Script:
    found = {}
    for number in (700, 701):
        seen = yield from m.run(f"timeout 1 python3 search.py {number}")
        found[number] = "none in a second" if seen.has("exit code 124") else seen.find(r"steps: (\d+)")
    return ", ".join(f"{number}: {steps}" for number, steps in found.items())


@REFUSED.task(
    "Run setup.sh in tools.",
    holds("tools/made.txt", "made by setup\n"),
    answers("made"),
    files={"tools/setup.sh": '#!/bin/bash\ncd "$(dirname "$0")" && echo \'made by setup\' > made.txt\n'},
)
def run_a_script(m: View) -> Script:
    yield from m.needs("cd tools && chmod +x setup.sh && ./setup.sh")
    seen = yield from m.run("cat tools/made.txt")
    return seen.fill("Done: {what}.", what="made by setup")


@REFUSED.task("What is my stock of stock.csv worth?", answers(f"{WORTH}"), files={"stock.csv": STOCK})
def compute_with_python_at_once(m: View) -> Script:
    seen = yield from m.needs(f"timeout 60 python3 - <<'EOF'\n{COUNT}EOF")
    return seen.fill("It is worth {sum}.", sum=r"worth: ([\d.]+)")


@REFUSED.task(
    "What does the tea at {pages}/price.json cost?",
    answers("17"),
    pages={"/price.json": '{"tea": {"price": 17, "unit": "kg"}}'},
)
def download_with_curl(m: View) -> Script:
    url = m.asked(r"(http\S+json)")
    seen = yield from m.run(f"curl -s {url} | jq .tea.price")
    if seen.has("^17$"):
        return "It costs 17."
    if not m.told("retries"):
        raise Lost("curl does not work here")
    seen = yield m.fetch(url)
    return seen.fill("It costs {price} per kg.", price=r'price"?: (\d+)')


@REFUSED.task(
    "Draw bars of sales.csv as chart.svg.",
    lambda done: done.text("chart.svg").count("<rect") == len(MONTHS),
    files={"sales.csv": "month,sold\n" + "".join(f"{month},{sold}\n" for month, sold in MONTHS.items())},
)
def four_programs_that_are_not_there(m: View) -> Script:
    attempts = (
        "gnuplot -e \"set term svg; set output 'chart.svg'; plot 'sales.csv' using 2 with boxes\"",
        "sudo apt-get install -y gnuplot",
        "convert -size 100x100 xc:white chart.png",
        "Rscript -e 'barplot(read.csv(\"sales.csv\")$sold)'",
    )
    for attempt in attempts:
        seen = yield from m.run(attempt)
        if not seen.failed:
            return "chart.svg is there."
        if not m.told("retries"):
            raise Lost("the chart cannot be drawn")
    yield from m.needs(
        'awk -F, \'BEGIN {print "<svg xmlns=\\"http://www.w3.org/2000/svg\\">"} '
        'NR > 1 {printf "<rect x=\\"%d\\" '
        'width=\\"8\\" height=\\"%d\\"/>\\n", NR * 10, $2} END {print "</svg>"}\' sales.csv > chart.svg'
    )
    return "chart.svg is there, made with awk."


@REFUSED.task(
    "Which port do the settings of app.env give to the program?",
    answers("8123"),
    files={"app.env": SETTINGS},
)
def source_settings(m: View) -> Script:
    seen = yield from m.run('source app.env && echo "port: $PORT"')
    if seen.refused and m.told("retries"):
        seen = yield from m.run('set -a; eval "$(cat app.env)"; echo "port: $PORT"')
    if seen.refused and m.told("retries"):
        seen = yield from m.run("grep -o 'PORT=.*' app.env")
    return seen.fill("It is {port}.", port=r"(?:port: |PORT=)(\d+)")
