"""Sorts loose files into folders by kind, with commands in the chat's sandbox."""

import shlex
from collections import defaultdict
from pathlib import PurePosixPath

from rumi.agent.skills.context import CannotDo, Context

KINDS = {
    "documents": "pdf doc docx odt rtf txt md tex epub pages",
    "tables": "csv tsv xls xlsx ods parquet",
    "slides": "ppt pptx odp key",
    "images": "jpg jpeg png gif webp svg heic bmp tif tiff ico",
    "audio": "mp3 wav flac ogg oga opus m4a aac",
    "video": "mp4 mkv avi mov webm m4v",
    "archives": "zip tar gz tgz bz2 xz 7z rar zst",
    "code": "py js ts java c h cpp hpp rs go rb php sh sql html css",
    "data": "json jsonl yaml yml toml xml ini log db sqlite",
}
KIND_OF = {ending: kind for kind, endings in KINDS.items() for ending in endings.split()}
OTHER = "other"
MOST_FILES = 1000
AT_ONCE = 50
SHOWN = 10


class TidyFolderSkill:
    """Makes a plan; with `apply` in front of the folder it carries it out."""

    async def run(self, context: Context) -> str:
        """Return what would be moved, or was."""
        words = context.input.strip()
        first, _, rest = words.partition(" ")
        apply = first.casefold() in ("apply", "aplicar")
        folder = (rest if apply else words).strip().strip("\"'") or "."
        if PurePosixPath(folder).is_absolute() and not folder.startswith("/workspace"):
            raise CannotDo(f"{folder} is not below /workspace, and only files of this chat are moved")
        names, more = await self._loose(context, folder)
        plan: dict[str, list[str]] = defaultdict(list)
        for name in names:
            plan[KIND_OF.get(PurePosixPath(name).suffix.lstrip(".").casefold(), OTHER)].append(name)
        if not plan:
            return f"There is nothing to tidy in {folder}: it has no loose files."
        if not apply:
            return self._told(folder, plan, more)
        return await self._move(context, folder, plan, more)

    async def _loose(self, context: Context, folder: str) -> tuple[list[str], int]:
        """The names of the ordinary files right in the folder, and how many are left for another time."""
        found = await context.tool("bash", command=f"find {_word(folder)} -maxdepth 1 -type f ! -name '.*'")
        if found.exit_code != 0:
            raise CannotDo(f"the folder {folder} cannot be listed: {found.content}")
        names = sorted(line.rpartition("/")[2] for line in found.output.splitlines() if line.strip())
        return names[:MOST_FILES], max(0, len(names) - MOST_FILES)

    def _told(self, folder: str, plan: dict[str, list[str]], more: int) -> str:
        total = sum(map(len, plan.values()))
        lines = [f"Plan for {folder}: {total} files. Nothing has been moved yet."]
        for kind, names in sorted(plan.items()):
            listed = ", ".join(names[:SHOWN]) + (
                f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            )
            lines.append(f"- {kind}/: {listed}")
        if more:
            lines.append(f"({more} more files are left for another time)")
        lines.append(f"To do it: use_skill tidy-folder with the input: apply {folder}")
        return "\n".join(lines)

    async def _move(self, context: Context, folder: str, plan: dict[str, list[str]], more: int) -> str:
        lines = []
        for kind, names in sorted(plan.items()):
            target = f"{folder}/{kind}"
            made = await context.tool("bash", command=f"mkdir -p -- {_word(target)}")
            if made.exit_code != 0:
                lines.append(f"- {kind}/ cannot be made, its files stay: {made.content}")
                continue
            for at in range(0, len(names), AT_ONCE):
                some = " ".join(_word(f"{folder}/{name}") for name in names[at : at + AT_ONCE])
                # Into the folder, and never over a file that is there.
                await context.tool("bash", command=f"mv -n -- {some} {_word(target)}/")
            lines.append(f"- {kind}/: {len(names)} files")
        left, _ = await self._loose(context, folder)
        stayed = [name for names in plan.values() for name in names if name in set(left)]
        moved = sum(map(len, plan.values())) - len(stayed)
        lines.insert(0, f"Moved {moved} files in {folder}:")
        if stayed:
            lines.append(
                f"These stayed, as a file of their name is there already: {', '.join(sorted(stayed))}"
            )
        if more:
            lines.append(f"({more} more files are left: run it again)")
        return "\n".join(lines)


def _word(path: str) -> str:
    """A path as one word of a command, never an option."""
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
