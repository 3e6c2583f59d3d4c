"""Tasks of `bench.agent` with texts: notes, settings, lists and documents to change; and with memory."""

from bench.agent_work import Task, Turn, after, call, edit, read, says, sh, task, write

NOTES = "# Trip\n\n- pack the tent\n- buy maps & water\n\nWe leave at *six*.\n"
HTML = (
    "<h1>Trip</h1>\n<ul>\n<li>pack the tent</li>\n<li>buy maps &amp; water</li>\n</ul>\n"
    "<p>We leave at <em>six</em>.</p>\n"
)
TOML = """\
# The server of the shop.
[server]
host = "0.0.0.0"   # all addresses
port = 8080        # above 1024

[proxy]
port = 8080
"""
INI = "; Made by hand\r\n[display]\r\nwidth=800\r\nfull=no\r\n\r\n[sound]\r\nwidth=2\r\n"
COMPOSE = """\
services:
  web:
    image: nginx:1.27
    ports:
      - "80:80"
  cache:
    image: redis:7
"""
VOLUME = '    volumes:\n      - "./data:/data"\n'
SHOPPING = "Milk\nbread\nmilk\nEggs\nBread\nrice\n"
GUIDE = "# Introduction\n\nWelcome.\n\n## Requirements\n\nA computer.\n\n## First steps\n\nSwitch it on.\n"
HEADINGS = {
    "# Introduction": "# Introducción",
    "## Requirements": "## Requisitos",
    "## First steps": "## Primeros pasos",
}
TALKS = {f"docs/page{n:02}.md": f"Page {n} of Larch.\nWe love Larch; larches too.\n" for n in range(40)}
CONTRACT = (
    "1. The rent is 700 euros.\n2. It is paid on the first day of a month.\n3. Notice is three months.\n"
)
CONTRACT_NEW = CONTRACT.replace("700", "750").replace("three months", "one month")
TODO = "- [ ] call the dentist\n- [ ] pay the rent\n"

TASKS = (
    task(
        "convert notes to HTML",
        "Make notes.html of notes.md.",
        [
            sh("cat notes.md"),
            after("pack the tent", sh("tee notes.html", HTML)),
            "notes.html is there.",
        ],
        [
            read("notes.md"),
            after("pack the tent", write("notes.html", HTML)),
            "notes.html is there.",
        ],
        check=lambda folder, _: (folder / "notes.html").read_text() == HTML,
        input_files={"notes.md": NOTES},
    ),
    task(
        "change a setting in TOML",
        "Let the server listen at port 9000, in shop.toml.",
        [
            sh("cat shop.toml"),
            after(
                "port = 8080",
                sh("sed -i '/^.server/,/^port/ s/^port = 8080 /port = 9000 /' shop.toml && cat shop.toml"),
            ),
            after("port = 9000", "It listens at 9000 now."),
        ],
        [
            read("shop.toml"),
            after(
                "port = 8080",
                edit("shop.toml", "port = 8080        # above", "port = 9000        # above"),
            ),
            "It listens at 9000 now.",
        ],
        check=lambda folder, _: (folder / "shop.toml").read_text() == TOML.replace("8080 ", "9000 ", 1),
        input_files={"shop.toml": TOML},
    ),
    task(
        "change a setting in INI",
        "Set the width of the display to 1920 in game.ini, and leave its Windows line ends.",
        [
            sh("cat -A game.ini"),
            after(
                r"width=800\^M\$",
                sh("sed -i 's/^width=800/width=1920/' game.ini && grep width game.ini"),
            ),
            "The width is 1920.",
        ],
        [
            read("game.ini"),
            after("width=800", edit("game.ini", "width=800", "width=1920")),
            "The width is 1920.",
        ],
        check=lambda folder, _: (folder / "game.ini").read_bytes() == INI.replace("800", "1920").encode(),
        input_files={"game.ini": INI},
    ),
    task(
        "add a block to YAML",
        "Mount ./data at /data in the cache of compose.yaml.",
        [
            sh("cat compose.yaml"),
            after("image: redis:7", sh("tee -a compose.yaml", VOLUME)),
            "The cache has a volume.",
        ],
        [
            read("compose.yaml"),
            after(
                "image: redis:7",
                edit("compose.yaml", "    image: redis:7\n", f"    image: redis:7\n{VOLUME}"),
            ),
            "The cache has a volume.",
        ],
        check=lambda folder, _: (folder / "compose.yaml").read_text() == COMPOSE + VOLUME,
        input_files={"compose.yaml": COMPOSE},
    ),
    task(
        "dedupe a list",
        "Remove what is in shopping.txt twice, no matter in which case, and keep the order.",
        [
            sh("awk '!seen[tolower($0)]++' shopping.txt > new && mv new shopping.txt && cat shopping.txt"),
            says("These are left: {list}", list=r"output:\n(.+)"),
        ],
        [
            read("shopping.txt"),
            after("rice", write("shopping.txt", "Milk\nbread\nEggs\nrice\n")),
            "These are left: Milk\nbread\nEggs\nrice\n",
        ],
        check=lambda folder, answer: (
            (folder / "shopping.txt").read_text() == "Milk\nbread\nEggs\nrice\n" and "Eggs\nrice" in answer
        ),
        input_files={"shopping.txt": SHOPPING},
    ),
    task(
        "fix line ends",
        "Some text files below src have Windows line ends. Change them to Unix ones.",
        [
            sh("grep -rlI '\r' src | sort"),
            after("src/b.txt", sh("grep -rlIZ '\r' src | xargs -0 sed -i 's/\\r$//'")),
            "Done.",
        ],
        check=lambda folder, _: (
            {p.name: p.read_bytes() for p in (folder / "src").iterdir()}
            == {"a.txt": b"one\ntwo\n", "b.txt": b"one\ntwo\n", "c d.txt": b"x\n", "pic": b"\0\r\n"}
        ),
        input_files={
            "src/a.txt": "one\ntwo\n",
            "src/b.txt": "one\r\ntwo\r\n",
            "src/c d.txt": "x\r\n",
            "src/pic": b"\0\r\n",
        },
    ),
    task(
        "replace a word in 40 files",
        "Call it Rowan instead of Larch in all docs.",
        [
            sh("grep -rc '\\bLarch\\b' docs | head -n 3"),
            after(
                ":2",
                sh(
                    "grep -rl '\\bLarch\\b' docs | xargs sed -i 's/\\bLarch\\b/Rowan/g' && "
                    "grep -rl Rowan docs | wc -l"
                ),
            ),
            says("Changed in {n} files.", n=r"output:\n(\d+)"),
        ],
        check=lambda folder, answer: (
            all((folder / name).read_text() == text.replace("Larch", "Rowan") for name, text in TALKS.items())
            and "40" in answer
        ),
        input_files=TALKS,
    ),
    task(
        "translate headings",
        "Translate the headings of guide.md to Spanish, and nothing else.",
        [
            sh("grep -n '^#' guide.md"),
            after(
                "First steps",
                sh(
                    "sed -i "
                    + " ".join(f"-e 's/^{old}$/{new}/'" for old, new in HEADINGS.items())
                    + " guide.md && grep '^#' guide.md"
                ),
            ),
            after("Primeros pasos", "The headings are in Spanish."),
        ],
        [
            read("guide.md"),
            after("First steps", [edit("guide.md", *pair) for pair in HEADINGS.items()]),
            "The headings are in Spanish.",
        ],
        check=lambda folder, _: (
            (folder / "guide.md").read_text().splitlines()
            == [HEADINGS.get(line, line) for line in GUIDE.splitlines()]
        ),
        input_files={"guide.md": GUIDE},
    ),
    task(
        "compare two versions",
        "What has changed between contract.txt and contract-new.txt?",
        [
            sh("diff contract.txt contract-new.txt"),
            says(
                "The rent is {new} instead of {old}; notice is {notice}.",
                old=r"< 1\D+(\d+)",
                new=r"> 1\D+(\d+)",
                notice=r"> 3. Notice is ([^.]+)",
            ),
        ],
        [
            [read("contract.txt"), read("contract-new.txt")],
            lambda seen: "The rent is {} instead of {}; notice is {}.".format(
                seen.find(r"is (\d+)"), seen.find(r"is (\d+)", 0), seen.find(r"Notice is ([^.]+)")
            ),
        ],
        check=lambda _, answer: answer == "The rent is 750 instead of 700; notice is one month.",
        input_files={"contract.txt": CONTRACT, "contract-new.txt": CONTRACT_NEW},
    ),
    Task(
        "remember facts",
        [
            Turn(
                "Remember that I live in Rosario and that I am allergic to peanuts.",
                [
                    [
                        call("remember", key="city", value="lives in Rosario"),
                        call("remember", key="allergy", value="is allergic to peanuts"),
                    ],
                    "I shall keep that in mind.",
                ],
            ),
            Turn("/new", []),
            Turn(
                "Where do I live, and what must I not eat?",
                [
                    lambda seen: "In {}, and no {}.".format(
                        seen.knows(r"lives in (\w+)"), seen.knows(r"allergic to (\w+)")
                    )
                ],
            ),
        ],
        check=lambda _, answer: answer == "In Rosario, and no peanuts.",
    ),
    Task(
        "keep a list of reminders",
        [
            Turn(
                "Add to my reminders (reminders.md): buy stamps.",
                [
                    sh("cat reminders.md"),
                    after("pay the rent", sh("tee -a reminders.md", "- [ ] buy stamps\n")),
                    "It is on the list.",
                ],
                [
                    read("reminders.md"),
                    after(
                        "pay the rent",
                        edit("reminders.md", "pay the rent\n", "pay the rent\n- [ ] buy stamps\n"),
                    ),
                    "It is on the list.",
                ],
            ),
            Turn(
                "The rent is paid. What is left?",
                [
                    sh("sed -i '/pay the rent/ s/\\[ \\]/[x]/' reminders.md && grep '\\[ \\]' reminders.md"),
                    says("Left: {one}, {two}.", one=r"\] (call [\w ]+)", two=r"\] (buy [\w ]+)"),
                ],
                [
                    edit("reminders.md", "- [ ] pay the rent", "- [x] pay the rent"),
                    "Left: call the dentist, buy stamps.",
                ],
            ),
        ],
        check=lambda folder, answer: (
            (folder / "reminders.md").read_text()
            == "- [ ] call the dentist\n- [x] pay the rent\n- [ ] buy stamps\n"
            and answer == "Left: call the dentist, buy stamps."
        ),
        input_files={"reminders.md": TODO},
    ),
)
