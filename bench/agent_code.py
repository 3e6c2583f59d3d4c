"""Tasks of `bench.agent` with programs: bugs, tests, scripts, a repository."""

import csv
import io
import json
import subprocess
from pathlib import Path

from bench.agent_work import Seen, after, edit, python, read, says, sh, task, write

CART = '''\
"""What a customer buys."""


class Cart:
    def __init__(self):
        self.items = []

    def add(self, name, price, count=1):
        self.items.append((name, price, count))

    def total(self):
        return sum(price for name, price, count in self.items)

    def cheapest(self):
        return min(self.items, key=lambda item: item[1])[0]
'''
TEST_CART = """\
import unittest

from shop.cart import Cart


class TestCart(unittest.TestCase):
    def setUp(self):
        self.cart = Cart()
        self.cart.add("pen", 2)
        self.cart.add("book", 10, count=3)

    def test_the_total_counts_each_piece(self):
        self.assertEqual(self.cart.total(), 32)

    def test_the_cheapest_is_found(self):
        self.assertEqual(self.cart.cheapest(), "pen")


if __name__ == "__main__":
    unittest.main()
"""
WRONG = "sum(price for name"
RIGHT = "sum(price * count for name"
SHOP = {
    "shop/__init__.py": "",
    "shop/cart.py": CART,
    "tests/__init__.py": "",
    "tests/test_cart.py": TEST_CART,
}
FIXED = {**SHOP, "shop/cart.py": CART.replace(WRONG, RIGHT)}
TESTS = "python3 -m unittest 2>&1 | tail -n 12"
DISCOUNT = """\

    def discounted(self, percent):
        return self.total() * (100 - percent) / 100
"""
TEST_DISCOUNT = """\

    def test_a_discount_is_in_percent(self):
        self.assertEqual(self.cart.discounted(25), 24)
"""
END = """

if __name__ == "__main__":"""
FOUND_END = TEST_CART[TEST_CART.index("        self.assertEqual(self.cart.cheapest()") :]
NEW_END = FOUND_END.replace(END, TEST_DISCOUNT + END)
INSERT = """\
from pathlib import Path
path = Path('tests/test_cart.py')
text = path.read_text()
new = '''
    def test_a_discount_is_in_percent(self):
        self.assertEqual(self.cart.discounted(25), 24)
'''
path.write_text(text.replace('\\n\\nif __name__', new + '\\n\\nif __name__'))
"""
SCRIPT = """\
#!/bin/sh
# Count the lines of each kind of file here.
for kind in txt md; do
    echo "$kind $(cat *.$kind | wc -l)"
done
"""
COUNTED = says("txt {t}, md {m}", t=r"txt (\d+)", m=r"md (\d+)")
CALLS = {
    "app/main.py": "from app.load import get_data\n\nprint(len(get_data('x')))\n",
    "app/load.py": "def get_data(path):\n    return list(path)\n\n\ndef get_database():\n    return None\n",
    "app/__init__.py": "",
    "notes.md": "`get_data` reads.\n",
}
TODOS = {
    "src/a.py": "x = 1\n# TODO: name it\n",
    "src/b/c.py": "def f():\n    pass  # TODO: write it\n",
    "src/d.py": "done = True\n",
}
CITIES = "name,people\nOslo,700000\n" + 'Quito,1900000\n"Lisbon, old town",5000\n'
TO_JSON = """\
import csv, json
rows = [{**row, 'people': int(row['people'])} for row in csv.DictReader(open('cities.csv'))]
json.dump(rows, open('cities.json', 'w'), indent=2)
print(len(rows), 'rows')
"""


def runs(folder: Path, *words: str) -> str:
    """Return what a program of this machine says in the folder."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def git(folder: Path, *words: str) -> str:
    return runs(folder, "git", "-c", "safe.directory=*", *words)


def todo_table(seen: Seen) -> str:
    lines = seen.find(r"output:\n(.+)").splitlines()
    rows = (line.split(":", 2) for line in lines)
    return "| where | what |\n|---|---|\n" + "".join(
        f"| {path}:{number} | {text.split('TODO: ')[1]} |\n" for path, number, text in rows
    )


TASKS = (
    task(
        "find and fix a bug",
        "A test of my shop fails. Fix the shop, not the test.",
        [
            sh(TESTS),
            after("12 != 32", sh("cat shop/cart.py")),
            after(
                WRONG.replace("(", "\\("),
                sh(f"sed -i 's/{WRONG}/{RIGHT}/' shop/cart.py && {TESTS}"),
            ),
            after("OK", "The total forgot how many pieces of each there are."),
        ],
        [
            sh(TESTS),
            after("12 != 32", read("shop/cart.py")),
            after(WRONG.replace("(", "\\("), [edit("shop/cart.py", WRONG, RIGHT), sh(TESTS)]),
            after("OK", "The total forgot how many pieces of each there are."),
        ],
        check=lambda folder, _: all((folder / name).read_text() == text for name, text in FIXED.items()),
        input_files=SHOP,
    ),
    task(
        "add a function and its test",
        "Give Cart a method discounted(percent), with a test.",
        [
            sh("cat shop/cart.py tests/test_cart.py"),
            after("def cheapest", [sh("tee -a shop/cart.py", DISCOUNT), python(INSERT), sh(TESTS)]),
            after("Ran 3 tests.*OK", "It is there, and so is its test."),
        ],
        [
            [read("shop/cart.py"), read("tests/test_cart.py")],
            [
                edit("shop/cart.py", "item[1])[0]\n", f"item[1])[0]\n{DISCOUNT}"),
                edit("tests/test_cart.py", FOUND_END, NEW_END),
                sh(TESTS),
            ],
            after("Ran 3 tests.*OK", "It is there, and so is its test."),
        ],
        check=lambda folder, _: (
            (folder / "shop/cart.py").read_text() == FIXED["shop/cart.py"] + DISCOUNT
            and "test_a_discount" in (folder / "tests/test_cart.py").read_text()
            and "Ran 3 tests" in runs(folder, "python3", "-B", "-m", "unittest")
        ),
        input_files=FIXED,
    ),
    task(
        "rename a function",
        "Call get_data read_rows everywhere.",
        [
            sh("grep -rnw get_data ."),
            after(
                "app/main.py",
                sh(
                    "grep -rlw get_data . | xargs sed -i 's/\\bget_data\\b/read_rows/g' && "
                    "python3 -m app.main"
                ),
            ),
            after("output:\n1\n", "It is called read_rows in three files."),
        ],
        check=lambda folder, _: all(
            (folder / name).read_text()
            == text.replace("get_data", "read_rows").replace("read_rowsbase", "get_database")
            for name, text in CALLS.items()
        ),
        input_files=CALLS,
    ),
    task(
        "write a script and run it",
        "Write count.sh, which prints the number of lines of all txt and all md files, and run it.",
        [[sh("tee count.sh", SCRIPT), sh("sh count.sh")], COUNTED],
        [[write("count.sh", SCRIPT), sh("sh count.sh")], COUNTED],
        check=lambda folder, answer: answer == "txt 3, md 1" and (folder / "count.sh").read_text() == SCRIPT,
        input_files={"a.txt": "1\n2\n", "b.txt": "3\n", "c.md": "4\n"},
    ),
    task(
        "commit in a repository",
        "Make a git repository of project, without the file secret.txt, and commit all of it.",
        [
            sh(
                "cd project && ls -A && git init -q && echo secret.txt > .gitignore && git add -A && "
                "git status -s"
            ),
            after(
                "A  main.py",
                sh("git -C project commit -q -m 'Begin the project' && git -C project log --stat"),
            ),
            after("Begin the project", "All but secret.txt is committed."),
        ],
        check=lambda folder, _: (
            git(folder / "project", "ls-files").split() == [".gitignore", "main.py"]
            and git(folder / "project", "log", "--format=%s") == "Begin the project\n"
        ),
        input_files={"project/main.py": "print('hello')\n", "project/secret.txt": "password\n"},
    ),
    task(
        "collect what is to be done",
        "Write all TODOs of src to todo.md as a table with their places.",
        [
            sh("grep -rn TODO: src | sort"),
            lambda seen: sh("tee todo.md", todo_table(seen)),
            "The table is in todo.md.",
        ],
        [
            sh("grep -rn TODO: src | sort"),
            lambda seen: write("todo.md", todo_table(seen)),
            "The table is in todo.md.",
        ],
        check=lambda folder, _: (
            (folder / "todo.md").read_text()
            == "| where | what |\n|---|---|\n| src/a.py:2 | name it |\n| src/b/c.py:2 | write it |\n"
        ),
        input_files=TODOS,
    ),
    task(
        "convert CSV to JSON",
        "Make cities.json of cities.csv; the number of people is a number.",
        [
            sh("head cities.csv"),
            after("Lisbon", python(TO_JSON)),
            says("{n} cities.", n=r"(\d+) rows"),
        ],
        check=lambda folder, answer: (
            json.loads((folder / "cities.json").read_text())
            == [{**row, "people": int(row["people"])} for row in csv.DictReader(io.StringIO(CITIES))]
            and answer == "3 cities."
        ),
        input_files={"cities.csv": CITIES},
    ),
)
