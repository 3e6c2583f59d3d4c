"""Print the text fields of a form as JSON."""

import json
import sys
from pathlib import Path

from forms import fields

print(json.dumps(fields(Path(sys.argv[1]).read_bytes())))
