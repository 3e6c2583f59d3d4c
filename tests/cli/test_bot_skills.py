"""`rumi bot skills`: skills of a git repository on the web, as texts."""

import json
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme

from tests.cli.program import Program
from tests.cli.test_bot import garden, run
from tests.fakes.git_server import git, imported, serves
from tests.fakes.web_server import certificate, serving


def a_repository(tmp_path: Path) -> Path:
    """Skills in the form of files and folders, code beside them, and what a hostile one may have."""
    work = tmp_path / "work"
    for name, text in {
        "skills/tidy/SKILL.md": "---\nname: tidy\ndescription: Keep order\n---\nTidy \x1b[2Jup.",
        "skills/tidy/run.py": "raise SystemExit",
        "skills/sow.md": "Sow in rows.",
        "other.md": "Another way.",
        ".gitattributes": "* filter=evil\n",
    }.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    (work / "skills" / "link.md").symlink_to("/etc/passwd")
    (work / "out").symlink_to("/etc")
    git(work, "init", "--quiet", "--initial-branch=main", ".")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "--message=Begin")
    served = imported(tmp_path / "served" / "skills.git", b"")
    git(work, "push", "--quiet", str(served), "main")
    return tmp_path / "served"


@pytest.mark.long
async def test_skills_of_a_repository_on_the_web_are_shown_and_installed(
    bubblewrap: Program, tmp_path: Path
) -> None:
    served, authority = a_repository(tmp_path), trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    garden(bubblewrap)
    bubblewrap.env |= {"RUMI_SANDBOX__TOOLS": "work", "SSL_CERT_FILE": str(tmp_path / "authority.pem")}
    search, install = (("bot", "skills", "garden", command) for command in ("search", "install"))
    answering = {f"/skills.git/{path}": serves(served) for path in ("info/refs", "git-upload-pack")}
    async with serving(answering, certificate(authority, "127.0.0.1")) as server:
        uri = f"https://{server.endpoint}/skills.git"
        refused = await run(bubblewrap, *search, "https://127.0.0.1/skills.git", code=1)
        assert "not public" in refused.stderr
        for other, words in (
            (f"http://{server.endpoint}/skills.git", "not fetched over http"),
            ("git@example.com:x/y.git", "not fetched over ssh"),
            ("file:///etc", "not fetched over file"),
            (f"{uri}#../x", "must lie in the repository"),
        ):
            assert words in (await run(bubblewrap, *search, other, code=None)).stderr
        bubblewrap.env["RUMI_FETCH__ALLOW"] = json.dumps([server.endpoint])
        found = (await run(bubblewrap, *search, f"{uri}#skills")).stdout
        assert {line.split()[0] for line in found.splitlines()} == {"tidy", "sow", "link"}
        assert (await run(bubblewrap, *search, uri)).stdout.split()[0] == "other"
        for nowhere in ("nowhere", "out", "skills/sow.md"):
            assert "no such folder" in (await run(bubblewrap, *search, f"{uri}#{nowhere}", code=2)).stderr
        no = partial(bubblewrap.run, *install, f"{uri}#skills", "tidy", text="n\n", code=1)
        shown = await trio.to_thread.run_sync(no)
        assert "Tidy" in shown.stdout
        assert "\x1b" not in shown.stdout
        skills = bubblewrap.home / "bots" / "garden" / "skills"
        assert not skills.exists() or not list(skills.iterdir())
        await run(bubblewrap, *install, f"{uri}#skills", "tidy", "--yes")
        assert [entry.name for entry in skills.iterdir()] == ["tidy.md"]
        link = await run(bubblewrap, *install, f"{uri}#skills", "link", "--yes")
        assert "root:" not in link.stdout
        assert server.open == 0
    assert [entry.name for entry in (bubblewrap.home / "workspace").iterdir()] == []
    # A folder of this machine is still one, whatever its name.
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "own.md").write_text("Own.")
    assert "own" in (await run(bubblewrap, *search, str(folder))).stdout
