"""Tasks of `bench.agent` that change files with the file tools, also where the first attempt misses."""

from bench.agent_model import Lost, Script, View
from bench.agent_task import Tasks, answers, holds

EDITS = Tasks("edits")

TOML = """\
# The server of the shop.
[server]
host = "0.0.0.0"   # all addresses
port = 8080

[proxy]
host = "10.0.0.1"
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
GUIDE = "# Introduction\n\nWelcome.\n\n## Requirements\n\nA computer.\n\n## First steps\n\nSwitch it on.\n"
HEADINGS = {
    "# Introduction": "# Introducción",
    "## Requirements": "## Requisitos",
    "## First steps": "## Primeros pasos",
}
GREET = """\
def greet(name, title = ''):
    \"\"\"Say hello.\"\"\"
    if title:
        return 'Hello, ' + title + ' ' + name
    return 'Hello, ' + name
"""
PRICES = "".join(f"[item{n}]\nname = Item {n}\nprice = {n * 3}\n\n" for n in range(400))
LIMITS = """\
def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return low
    return value
"""
COUNT = """\
#!/bin/sh
# Print the number of lines of each kind of file here.
for kind in txt md
    echo "$kind $(cat *.$kind | wc -l)"
done
"""
COUNT_GOOD = COUNT.replace("txt md\n", "txt md; do\n")
REMINDERS = "- [ ] call the dentist\n- [ ] pay the rent\n"
NOTES = "# Trip\n\n- pack the tent\n- buy maps & water\n\nWe leave at *six*.\n"
HTML = (
    "<h1>Trip</h1>\n<ul>\n<li>pack the tent</li>\n<li>buy maps &amp; water</li>\n</ul>\n"
    "<p>We leave at <em>six</em>.</p>\n"
)


@EDITS.task(
    "Let the server listen at port 9000, in shop.toml.",
    holds("shop.toml", TOML.replace("8080", "9000", 1)),
    files={"shop.toml": TOML},
)
def an_edit_that_is_not_unique(m: View) -> Script:
    seen = yield m.read("shop.toml")
    seen.find("port = 8080")
    seen = yield m.edit("shop.toml", "port = 8080", "port = 9000")
    if not m.told("retries"):
        raise Lost("the edit failed")
    seen.find(r"(?i)times|unique|more lines|lines \d+")
    yield m.edit("shop.toml", "# all addresses\nport = 8080", "# all addresses\nport = 9000")
    seen = yield from m.run("cat shop.toml")
    seen.find("port = 9000")
    return "The server listens at 9000 now."


@EDITS.task(
    "Set the width of the display to 1920 in game.ini, and leave its Windows line ends.",
    holds("game.ini", INI.replace("800", "1920")),
    files={"game.ini": INI},
)
def windows_line_ends(m: View) -> Script:
    seen = yield m.read("game.ini")
    seen.find("width=800")
    yield m.edit("game.ini", "[display]\nwidth=800", "[display]\nwidth=1920")
    return "The width is 1920."


@EDITS.task(
    "Let greet say Good morning instead of Hello.",
    holds("greet.py", GREET.replace("Hello,", "Good morning,")),
    files={"greet.py": GREET},
)
def an_edit_from_memory(m: View) -> Script:
    """The first edit has the quotes that most code has; the result shows the true line."""
    yield from m.run("ls && wc -l greet.py")
    for start, rest in (("        return", " + title + ' ' + name"), ("    return", " + name")):
        old = f'{start} "Hello, "{rest}'
        seen = yield m.edit("greet.py", old, old.replace("Hello", "Good morning"))
        if not m.told("retries"):
            raise Lost("the edit failed")
        line = seen.find(rf"^ *\d+\t({start}'Hello, '.*)$") if seen.has(rf"\t{start}'H") else ""
        line = line or seen.find(rf"({start} 'Hello, '[^\n]*name)")
        yield m.edit("greet.py", line + "\n", line.replace("Hello", "Good morning") + "\n")
    seen = yield from m.run(
        "grep -c 'Good morning' greet.py && python3 -c 'import greet; print(greet.greet(\"Ana\"))'"
    )
    seen.find("Good morning, Ana")
    return "It says Good morning."


@EDITS.task(
    "In prices.ini, item 217 costs 999 now.",
    holds("prices.ini", PRICES.replace("Item 217\nprice = 651", "Item 217\nprice = 999")),
    answers("999"),
    files={"prices.ini": PRICES},
)
def an_edit_in_a_long_file(m: View) -> Script:
    seen = yield from m.run("grep -n -A 2 'item217' prices.ini")
    line = int(seen.find(r"^(\d+)[:-]\[item217"))
    seen = yield m.read("prices.ini", offset=line, limit=3)
    price = seen.find(r"price = (\d+)")
    yield m.edit("prices.ini", f"Item 217\nprice = {price}", "Item 217\nprice = 999")
    seen = yield from m.run("grep -A 2 'item217' prices.ini")
    return seen.fill("It costs {price} now.", price=r"price = (\d+)")


@EDITS.task(
    "Translate the headings of guide.md to Spanish, and nothing else.",
    lambda done: (
        done.text("guide.md").splitlines() == [HEADINGS.get(line, line) for line in GUIDE.splitlines()]
    ),
    files={"guide.md": GUIDE},
)
def three_edits_at_once(m: View) -> Script:
    seen = yield m.read("guide.md")
    seen.find("First steps")
    yield [m.edit("guide.md", f"{old}\n", f"{new}\n") for old, new in HEADINGS.items()]
    return "The headings are in Spanish."


@EDITS.task(
    "clamp in limits.py is wrong at the upper end. Fix it.",
    holds("limits.py", LIMITS.replace("> high:\n        return low", "> high:\n        return high")),
    files={"limits.py": LIMITS},
)
def an_edit_with_a_mistake(m: View) -> Script:
    """The first edit lacks its indent, as edits from memory do; the check shows it."""
    yield m.read("limits.py")
    yield m.edit("limits.py", "> high:\n        return low", "> high:\n    return high")
    if m.told("checks"):
        seen = yield from m.run("python3 -c 'from limits import clamp; print(clamp(9, 1, 5))'")
        seen.find(r"IndentationError|indent")
        yield m.edit("limits.py", "> high:\n    return high", "> high:\n        return high")
        seen = yield from m.run("python3 -c 'from limits import clamp; print(clamp(9, 1, 5))'")
        seen.find("^5$")
    return "clamp is right at its upper end."


@EDITS.task(
    "Write count.sh, which prints the number of lines of all txt and all md files, and run it.",
    answers("txt 3", "md 1"),
    holds("count.sh", COUNT_GOOD),
    files={"a.txt": "1\n2\n", "b.txt": "3\n", "c.md": "4\n"},
)
def write_a_script_with_a_mistake(m: View) -> Script:
    yield m.write("count.sh", COUNT)
    seen = yield from m.run("sh count.sh")
    if not m.told("retries"):
        raise Lost("the script does not work")
    seen.find(r"count.sh: \d+:|[Ss]yntax error")
    yield m.edit("count.sh", "for kind in txt md\n", "for kind in txt md; do\n")
    seen = yield from m.run("sh count.sh")
    return seen.fill("txt {t}, md {md}", t=r"^txt (\d+)", md=r"^md (\d+)")


@EDITS.task(
    "Add to my reminders (reminders.md): buy stamps.",
    holds("reminders.md", "- [ ] call the dentist\n- [x] pay the rent\n- [ ] buy stamps\n"),
    answers("dentist", "stamps"),
    files={"reminders.md": REMINDERS},
)
def keep_a_list_of_reminders(m: View) -> Script:
    yield m.read("reminders.md")
    yield m.edit("reminders.md", "pay the rent\n", "pay the rent\n- [ ] buy stamps\n")
    return "It is on the list."


@EDITS.then("The rent is paid. What is left?")
def what_is_left(m: View) -> Script:
    yield m.edit("reminders.md", "- [ ] pay the rent", "- [x] pay the rent")
    seen = yield from m.run("grep '\\[ \\]' reminders.md")
    return "Left: " + ", ".join(seen.all(r"\] (.+)$"))
