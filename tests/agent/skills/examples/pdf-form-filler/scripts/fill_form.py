"""Fill a form: fill_form.py FORM VALUES.json RESULT."""

import json
import sys
from pathlib import Path

from forms import fields, filled

form, values, result = map(Path, sys.argv[1:])
given = json.loads(values.read_text())
raw = form.read_bytes()
if unknown := given.keys() - fields(raw).keys():
    sys.exit(f"no such field: {', '.join(sorted(unknown))}")
result.write_bytes(filled(raw, given))
print(f"wrote {result}")
