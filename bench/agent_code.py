"""Tasks of `bench.agent` with programs: tests, tracebacks, builds with long output, mistakes in a row."""

from bench.agent_model import Lost, Part, Script, View
from bench.agent_task import Tasks, answers, same_files

CODE = Tasks("code")

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
DISCOUNT = "\n    def discounted(self, percent):\n        return self.total() * (100 - percent) / 100\n"
TEST_DISCOUNT = """\

    def test_a_discount_is_in_percent(self):
        self.assertEqual(self.cart.discounted(25), 24)
"""
CALLS = {
    "app/main.py": "from app.load import get_data\n\nprint(len(get_data('x')))\n",
    "app/load.py": "def get_data(path):\n    return list(path)\n\n\ndef get_database():\n    return None\n",
    "app/__init__.py": "",
    "notes.md": "`get_data` reads.\n",
}
REPORT = """\
import json

people = json.load(open("people.json"))
for person in people:
    print(f"reading {person['name']}")
print("mean age:", sum(person["age"] for person in people) / len(people))
"""
PEOPLE = '[{"name": "Ana", "age": 30}, {"name": "Bea", "agee": 40}, {"name": "Cleo", "age": 50}]\n'
BUILD = """\
import sys

for number in range(1, 4001):
    print(f"[{number:4}/4000] compiling module_{number:04}.c: -O2 -Wall ok, 0 warnings")
    if number == 4000 and "theme = mauve" in open("build.conf").read():
        print("linking")
        sys.exit("error: build.conf:3: unknown theme: mauve (known: light, dark)")
print("build finished")
"""
CONF = "name = shop\ndebug = no\ntheme = mauve\n"
FLAKY = """\
import os
import unittest


class TestTurns(unittest.TestCase):
    def test_each_third_run_is_late(self):
        runs = int(open("runs").read()) + 1 if os.path.exists("runs") else 1
        open("runs", "w").write(str(runs))
        self.assertTrue(runs % 3, "late")
"""
PARTS = ("users", "orders", "prices", "mails", "pages", "stock", "taxes")
SERVICE = {
    "service/__init__.py": "",
    "service/__main__.py": "".join(f"from service.{part} import {part}\n" for part in PARTS)
    + "print('service is up')\n",
    **{f"service/{part}.py": f"def {part}s_of(x):\n    return x\n" for part in PARTS},
}
MAKEFILE = "all: out.txt\n\nout.txt: in.txt\n    tr a-z A-Z < in.txt > out.txt\n"
SUM_JS = "const rows = require('./rows.json');\nconsole.log('sum', rows.reduce((sum, row) => sum + row.n));\n"
WORDS = """\
import sys

counts = {}
for line in open(sys.argv[1], encoding="ascii"):
    for word in line.split():
        counts[word] = counts.get(word, 0) + 1
print("different words:", len(counts))
"""


def tests(m: View) -> Part:
    """Run the tests with pytest, as most models do, and with unittest where pytest is not there."""
    seen = yield from m.run("timeout 120 python3 -m pytest -q 2>&1 | tail -n 15")
    if seen.has("No module named"):
        seen = yield from m.run("timeout 120 python3 -m unittest discover -v -s tests -t . 2>&1 | tail -n 25")
    return seen


PASSED = r"^OK$|\d+ passed"


@CODE.task("A test of my shop fails. Fix the shop, not the test.", same_files(FIXED), files=SHOP)
def find_and_fix_a_bug(m: View) -> Script:
    seen = yield from tests(m)
    seen.find("12 != 32")
    yield [m.read("shop/cart.py"), m.read("tests/test_cart.py")]
    yield m.edit("shop/cart.py", WRONG, RIGHT)
    seen = yield from tests(m)
    seen.find(PASSED)
    return "The total forgot how many pieces of each there are."


@CODE.task(
    "Give Cart a method discounted(percent), with a test.",
    lambda done: done.text("shop/cart.py") == FIXED["shop/cart.py"] + DISCOUNT,
    lambda done: "Ran 3 tests" in done.runs("python3", "-B", "-m", "unittest"),
    files=FIXED,
)
def add_a_function_and_its_test(m: View) -> Script:
    seen = yield from m.run("cat shop/cart.py tests/test_cart.py")
    seen.find("def cheapest")
    yield from m.needs(
        f"cat >> shop/cart.py <<'EOF'\n{DISCOUNT}EOF\ncat >> tests/test_cart.py <<'EOF'\n{TEST_DISCOUNT}EOF"
    )
    seen = yield from tests(m)
    seen.find(PASSED)
    return "It is there, and so is its test."


@CODE.task(
    "Call get_data read_rows everywhere.",
    same_files(
        {
            name: text.replace("get_data", "read_rows").replace("read_rowsbase", "get_database")
            for name, text in CALLS.items()
        }
    ),
    files=CALLS,
)
def rename_a_function(m: View) -> Script:
    seen = yield from m.run("grep -rnw get_data . --include='*' | grep -v '\\.pyc'")
    seen.find("app/main.py")
    yield from m.needs(
        "grep -rlw get_data . | xargs sed -i 's/\\bget_data\\b/read_rows/g' && python3 -m app.main"
    )
    return "It is called read_rows in three files."


@CODE.task(
    "Run report.py. If the data has a mistake, fix the data.",
    lambda done: done.text("people.json") == PEOPLE.replace("agee", "age"),
    answers("40"),
    files={"report.py": REPORT, "people.json": PEOPLE},
)
def a_traceback(m: View) -> Script:
    seen = yield from m.run("python3 report.py")
    key = seen.find(r"KeyError: '(\w+)'")
    seen = yield from m.run(f"grep -no '\"{key}[a-z]*\"' people.json; cat people.json")
    seen.find(f'"{key}e"')
    yield from m.needs(f'sed -i \'s/"{key}e"/"{key}"/\' people.json')
    seen = yield from m.run("python3 report.py")
    return seen.fill("The mean age is {age}.", age=r"mean age: ([\d.]+)")


@CODE.task(
    "The build fails. Fix its configuration with the dark theme.",
    lambda done: done.text("build.conf") == CONF.replace("mauve", "dark"),
    files={"build.py": BUILD, "build.conf": CONF},
)
def an_error_at_the_end_of_a_long_output(m: View) -> Script:
    seen = yield from m.run("python3 build.py")
    line, word = seen.rows(r"^error: build.conf:(\d+): unknown theme: (\w+)")[0]
    yield from m.needs(f"sed -i '{line}s/{word}/dark/' build.conf && cat build.conf")
    seen = yield from m.run("timeout 60 python3 build.py | tail -n 1")
    seen.find("build finished")
    return "The theme is dark, and the build works."


@CODE.task("How often does the test fail in 12 runs?", answers("4 of 12"), files={"test_turns.py": FLAKY})
def a_test_that_fails_at_times(m: View) -> Script:
    seen = yield from m.run(
        "for i in $(seq 1 12); do "
        "python3 -m unittest -q test_turns >/dev/null 2>&1 && echo good || echo bad; done "
        "| sort | uniq -c"
    )
    return seen.fill("{n} of 12.", n=r"(\d+) bad")


@CODE.task(
    "python3 -m service does not start. Fix its modules one by one, until it does.",
    lambda done: "service is up" in done.runs("python3", "-B", "-m", "service"),
    lambda done: done.text("service/__main__.py") == SERVICE["service/__main__.py"],
    files=SERVICE,
)
def seven_mistakes_in_a_row(m: View) -> Script:
    seen = yield from m.run("python3 -m service")
    for _ in PARTS:
        if seen.has("service is up"):
            break
        if not m.told("retries"):
            raise Lost("the service does not start")
        part = seen.find(r"cannot import name '(\w+)'")
        yield m.read(f"service/{part}.py")
        yield m.edit(f"service/{part}.py", f"def {part}s_of(", f"def {part}(")
        seen = yield from m.run("python3 -m service")
    seen.find("service is up")
    return "It starts."


@CODE.task(
    "make fails. Why? Fix it.",
    lambda done: done.text("out.txt") == "HELLO\n",
    answers("tab"),
    files={"Makefile": MAKEFILE, "in.txt": "hello\n"},
)
def a_makefile(m: View) -> Script:
    seen = yield from m.run("make || make -n")
    line = seen.find(r"Makefile:(\d+): \*\*\* missing separator")
    yield from m.needs(f"sed -i '{line}s/^ */\\t/' Makefile && make -s && cat out.txt")
    return "Its command did not begin with a tab."
