"""What a working installation needs, checked one by one, each with its mend.

`machine` looks at Python, the disk and the clock, `files` at the home, `databases` into its two, `settings`
at the configuration and what it names, `sandboxes` at what commands run in, `online` asks the servers. All of
it works while another process holds the home, and changes nothing in it.
"""

from rumi.doctor.check import Check, Verdict
from rumi.doctor.examining import examine

__all__ = ["Check", "Verdict", "examine"]
