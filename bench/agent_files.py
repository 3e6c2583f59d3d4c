"""Tasks of `bench.agent` with files as a whole: their names, places, sizes, archives and pages."""

import io
import tarfile
import zipfile
import zlib
from datetime import UTC, datetime
from pathlib import Path

from bench.agent_work import Call, Seen, after, call, edit, python, read, says, sh, task, write
from tests.web.pdfs import pdf

DAYS = {f"IMG_{number:04}.jpg": 1_767_225_600 + number * 40_000 for number in range(200)}
PLACES = ("lisbon", "oslo", "quito")
MEGA = 1_000_000
INVOICES = {"march.pdf": ("2026-031", 410), "april.pdf": ("2026-044", 1290), "may.pdf": ("2026-058", 730)}
RENAME = """\
from datetime import datetime, timezone
from pathlib import Path
for path in sorted(Path('.').glob('IMG_*.jpg')):
    day = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc).strftime('%Y-%m-%d')
    path.rename(f'{day}_{path.name[4:]}')
print(sum(1 for _ in Path('.').glob('20*.jpg')), 'renamed')
"""
READ_PDFS = """\
import re, zlib
from pathlib import Path
for path in sorted(Path('.').glob('*.pdf')):
    for stream in re.findall(rb'stream\\n(.*?)\\nendstream', path.read_bytes(), re.S):
        print(path.name, *re.findall(rb'\\((.*?)\\)', zlib.decompress(stream)))
"""
LETTERS = """\
import csv
from pathlib import Path
text = Path('letter.txt').read_text()
for row in csv.DictReader(open('guests.csv')):
    letter = text
    for key, value in row.items():
        letter = letter.replace('{{' + key + '}}', value)
    Path('letters').mkdir(exist_ok=True)
    Path(f"letters/{row['name'].lower()}.txt").write_text(letter)
print(len(list(Path('letters').iterdir())), 'letters')
"""
GUESTS = {"Ana": "Friday", "Bruno": "Saturday", "Carla": "Sunday", "Diego": "Friday", "Elena": "Sunday"}
ZIP = "zip -r site.zip site && unzip -l site.zip"
SAME = r"(?:(\w{64})  [^\n]+\n)(?=\1)\w+  ([^\n]+)"
PRICE, STORAGE = r"Price: (\d+)", r"Storage: (\d+)"
FAMILY = "Family has more storage, and costs 5 euros more."
PLAN = """\
<html><head><title>{name}</title></head><body><main><h1>{name}</h1>
<p>The {name} plan is for people who keep their documents in one place.</p>
<ul><li>Price: {price} euros a month</li><li>Storage: {storage} GB</li><li>Support: {support}</li></ul>
</main></body></html>
"""


def day(name: str) -> str:
    return datetime.fromtimestamp(DAYS[name], UTC).strftime("%Y-%m-%d")


def invoice(number: str, total: int) -> bytes:
    lines = b"(Invoice %s) Tj 0 -20 Td (Total due: %d EUR) Tj" % (number.encode(), total)
    return pdf([zlib.compress(b"BT /F1 12 Tf 20 200 Td " + lines + b" ET")], flate=True)


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


def names(folder: Path, pattern: str = "*") -> set[str]:
    return {path.name for path in folder.glob(pattern)}


def add_up(seen: Seen) -> str:
    totals = {
        seen.find(rf"{name} b'Invoice (\S+)'"): seen.find(rf"{name} [^\n]*: (\d+)") for name in INVOICES
    }
    highest = max(totals, key=lambda number: int(totals[number]))
    return f"{sum(map(int, totals.values()))} EUR; the highest is {highest}."


def fetch_both(seen: Seen) -> list[Call]:
    return [call("web_fetch", url=seen.asked(rf"(http\S+/{name})")) for name in ("basic", "family")]


def plans(seen: Seen) -> str:
    rows = (
        f"| {name} | {seen.find(PRICE, index)} | {seen.find(STORAGE, index)} |\n"
        for index, name in enumerate(("Basic", "Family"))
    )
    return "| plan | price | storage |\n|---|---|---|\n" + "".join(rows)


TASKS = (
    task(
        "rename by date",
        "Rename my 200 photos, like IMG_0012.jpg, to the day they were taken and the number, like "
        "2026-01-05_0012.jpg. The file times are right, in UTC.",
        [
            sh("ls -l --time-style=long-iso | head -n 5"),
            python(RENAME),
            says("Done: {n} photos.", n=r"(\d+) renamed"),
        ],
        check=lambda folder, answer: (
            names(folder) == {f"{day(name)}_{name[4:]}" for name in DAYS} and "200" in answer
        ),
        input_files=dict.fromkeys(DAYS, b"\xff\xd8\xff"),
        times=DAYS,
    ),
    task(
        "sort photos by name",
        "Put the photos into a folder for each place; the place is the beginning of the name.",
        [
            sh("ls"),
            after(
                "oslo_",
                sh(
                    "mkdir -p " + " ".join(PLACES) + " && " + " && ".join(f"mv {p}_*.jpg {p}" for p in PLACES)
                ),
            ),
            "They are in lisbon, oslo and quito.",
        ],
        check=lambda folder, _: (
            names(folder) == set(PLACES)
            and all(names(folder / p) == {f"{p}_{n:02}.jpg" for n in range(12)} for p in PLACES)
        ),
        input_files={f"{place}_{number:02}.jpg": b"\xff\xd8\xff" for place in PLACES for number in range(12)},
    ),
    task(
        "find large files",
        "Which files here are larger than 1 MB? The largest first.",
        [
            sh("find . -type f -size +1000000c -printf '%s %p\\n' | sort -rn"),
            says("1. {one}\n2. {two}", one=r"output:\n\d+ \./(\S+)", two=r"output:\n.*?\n\d+ \./(\S+)"),
        ],
        check=lambda _, answer: answer == "1. video/talk.mp4\n2. backup/old.iso",
        input_files={
            "video/talk.mp4": bytes(3 * MEGA),
            "backup/old.iso": bytes(2 * MEGA),
            "notes.txt": "small",
            "video/cut.mp4": bytes(900_000),
        },
    ),
    task(
        "unpack and repack",
        "Unpack site.tar.gz, put the year 2026 in place of 2025 in its footer.html, and make site.zip of "
        "all of it.",
        [
            sh("tar -xvzf site.tar.gz && cat site/footer.html"),
            after(
                "2025",
                sh(f"sed -i s/2025/2026/ site/footer.html && {ZIP}"),
            ),
            after("footer.html", "site.zip is there."),
        ],
        [
            [sh("tar -xvzf site.tar.gz"), read("site/footer.html")],
            after("2025", [edit("site/footer.html", "2025", "2026"), sh(ZIP)]),
            after("footer.html", "site.zip is there."),
        ],
        check=lambda folder, _: (
            zipped(folder / "site.zip", "site/footer.html") == "<p>(c) 2026 Ana</p>\n"
            and zipped(folder / "site.zip", "site/index.html") == "<h1>Since 2025</h1>\n"
        ),
        input_files={
            "site.tar.gz": tar(
                {"site/index.html": "<h1>Since 2025</h1>\n", "site/footer.html": "<p>(c) 2025 Ana</p>\n"}
            )
        },
    ),
    task(
        "answer from three PDFs",
        "How much do the three invoices come to, and which one is the highest?",
        [
            sh("ls && file may.pdf && head -c 300 may.pdf"),
            after("PDF document", python(READ_PDFS)),
            add_up,
        ],
        check=lambda _, answer: answer == "2430 EUR; the highest is 2026-044.",
        input_files={name: invoice(*about) for name, about in INVOICES.items()},
    ),
    task(
        "compare two web pages",
        "Which plan has more storage, {pages}/basic or {pages}/family, and what is the difference in "
        "price? Write it to plans.md.",
        [fetch_both, lambda seen: sh("tee plans.md", plans(seen)), FAMILY],
        [fetch_both, lambda seen: write("plans.md", plans(seen)), FAMILY],
        check=lambda folder, answer: (
            (folder / "plans.md").read_text()
            == "| plan | price | storage |\n|---|---|---|\n| Basic | 4 | 50 |\n| Family | 9 | 800 |\n"
            and answer.startswith("Family")
        ),
        pages={
            "/basic": PLAN.format(name="Basic", price=4, storage=50, support="by mail"),
            "/family": PLAN.format(name="Family", price=9, storage=800, support="by telephone"),
        },
    ),
    task(
        "fill a letter",
        "Fill letter.txt for each guest of guests.csv, as letters/NAME.txt in small letters.",
        [
            sh("cat letter.txt guests.csv"),
            after("{{day}}", python(LETTERS)),
            says("{n} letters are in letters/.", n=r"(\d+) letters"),
        ],
        [
            [read("letter.txt"), read("guests.csv")],
            [
                write(f"letters/{name.lower()}.txt", f"Dear {name},\nsee you on {on}.\n")
                for name, on in GUESTS.items()
            ],
            after("elena", "5 letters are in letters/."),
        ],
        check=lambda folder, answer: (
            {path.name: path.read_text() for path in (folder / "letters").iterdir()}
            == {f"{name.lower()}.txt": f"Dear {name},\nsee you on {on}.\n" for name, on in GUESTS.items()}
            and answer.startswith("5")
        ),
        input_files={
            "letter.txt": "Dear {{name}},\nsee you on {{day}}.\n",
            "guests.csv": "name,day\n" + "".join(f"{name},{on}\n" for name, on in GUESTS.items()),
        },
    ),
    task(
        "find duplicate files",
        "Delete every second copy of a file in downloads; keep the one whose name comes first.",
        [
            sh("sha256sum downloads/* | sort"),
            lambda seen: sh(f"rm '{seen.find(SAME)}'"),
            "One copy is deleted.",
        ],
        check=lambda folder, _: names(folder / "downloads") == {"form.pdf", "a report.pdf", "trip.txt"},
        input_files={
            "downloads/form.pdf": "a form",
            "downloads/a report.pdf": "a report",
            "downloads/that report (1).pdf": "a report",
            "downloads/trip.txt": "a trip",
        },
    ),
)
