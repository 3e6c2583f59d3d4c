"""Which ordinary command lines the command policy allows, by kind, and why it refuses the others.

    python -m bench.agent_commands

The lines are those of `data/commands.txt`, as people type them at a shell of their own. What the sandbox
cannot have stands among them too: programs that need a network, a screen or root.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rumi.sandbox.policy import CommandPolicy
from rumi.sandbox.words import CommandRefused
from runner.programs import Selection

FILE = Path(__file__).parent / "data" / "commands.txt"
POLICIES = {
    f"{policy} {tools}": CommandPolicy(Selection(tools).allowed, open=policy == "open")
    for policy in ("strict", "open")
    for tools in ("core", "work")
}
REASONS = 10
EXAMPLES = 9


def by_kind() -> Mapping[str, list[str]]:
    """Return the lines under their headings."""
    kinds: dict[str, list[str]] = {}
    for line in FILE.read_text().splitlines()[1:]:
        if line.startswith("# "):
            kinds[line[2:]] = []
        elif line:
            kinds[list(kinds)[-1]].append(line)
    return kinds


@dataclass
class Judged:
    """What a policy says of lines."""

    allowed: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    parts: dict[str, Counter[str]] = field(default_factory=dict)

    def judge(self, policy: CommandPolicy, line: str) -> bool:
        try:
            policy.parse(line)
        except CommandRefused as refusal:
            said = refusal.message.removeprefix("Refused: ").strip(".")
            reason = re.sub("`[^`]*`", "…", said)
            self.reasons[reason] += 1
            self.parts.setdefault(reason, Counter()).update(re.findall("`([^`]*)`", said))
            return False
        self.allowed += 1
        return True

    def why(self) -> Iterator[str]:
        for reason, number in self.reasons.most_common(REASONS):
            parts = " ".join(part for part, _ in self.parts[reason].most_common(EXAMPLES))
            yield f"{number:5}  {reason}{':' * bool(parts)} {parts}".rstrip()


def show() -> None:
    kinds = by_kind()
    lines = sum(map(len, kinds.values()))
    print(f"\n{f'{lines:,} ordinary command lines':48}" + "".join(f"{name:>13}" for name in POLICIES))
    judged = {name: Judged() for name in POLICIES}
    for kind, kind_lines in kinds.items():
        shares = (
            sum(judged[name].judge(policy, line) for line in kind_lines) / len(kind_lines)
            for name, policy in POLICIES.items()
        )
        print(f"  {f'{kind} ({len(kind_lines)})':46}" + "".join(f"{share:13.1%}" for share in shares))
    print(f"  {'allowed':46}" + "".join(f"{verdict.allowed / lines:13.1%}" for verdict in judged.values()))
    for name, verdict in judged.items():
        if verdict.reasons:
            print(f"\n  why `{name}` refuses {lines - verdict.allowed}, and what most often:")
            print("\n".join(verdict.why()))


if __name__ == "__main__":
    show()
