"""Paths that a server names: what its sandbox shows, and what it would lose."""

import sys
from pathlib import Path

import pytest

from rumi.agent.mcp.bwrap import hidden_folders
from rumi.agent.mcp.failures import ServerFailed
from rumi.agent.mcp.messages import McpError
from rumi.agent.mcp.paths import HOME, expanded, named, unseen
from rumi.agent.mcp.servers import try_once
from tests.agent.mcp.world import fake

pytestmark = pytest.mark.bubblewrap


@pytest.mark.parametrize(
    ("word", "paths"),
    [
        ("/srv/notes.db", ["/srv/notes.db"]),
        ("--db-path=/srv/notes.db", ["/srv/notes.db"]),
        ("VAULT=/srv/vault", ["/srv/vault"]),
        ("/srv/a:/srv/b", ["/srv/a", "/srv/b"]),
        ("/srv/a,/srv/b/../c", ["/srv/a", "/srv/c"]),
        ("file:///srv/docs", ["/srv/docs"]),
        ("sqlite:////srv/data.db?mode=ro", ["/srv/data.db"]),
        ("sqlite+aiosqlite:////srv/data.db", ["/srv/data.db"]),
        ("unix:///var/run/docker.sock", ["/var/run/docker.sock"]),
        ("--root=file:///srv/docs", ["/srv/docs"]),
        ("https://example.org/srv/docs", []),
        ("sqlite:///data.db", []),
        ("notes.db", []),
        ("--path", []),
        ("key=value/with/slash", []),
        ("//example.org/share", []),
        ("the text /srv/x", []),
        ('{"db": "/tmp/data/notes.db"}', ["/tmp/data/notes.db"]),
        ("cd /srv && exec server --db /tmp/data/x.db", ["/tmp/data/x.db"]),
        ("type=bind,src=/dev/shm/box", ["/dev/shm/box"]),
        ("/tmp/a b/x.db", ["/tmp/a b/x.db"]),
        ("https://example.org/tmp/x", []),
        ("notes/tmp/x ./tmp/y", []),
        ("$HOME/x", []),
    ],
)
def test_paths_are_found_in_arguments_and_variables(word: str, paths: list[str]) -> None:
    assert [str(path) for path in named([word])] == paths


@pytest.mark.parametrize(
    ("word", "expands"),
    [
        ("~/notes", "/home/someone/notes"),
        ("--db=~/a.db", "--db=/home/someone/a.db"),
        ("DIR=~/a", "DIR=/home/someone/a"),
        ("~", "~"),
        ("~other/x", "~other/x"),
        ("a~/b", "a~/b"),
        ("it is ~/x", "it is ~/x"),
    ],
)
def test_a_home_in_arguments_is_the_users(monkeypatch: pytest.MonkeyPatch, word: str, expands: str) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert expanded(word) == expands


def test_only_paths_that_the_sandbox_does_not_show_count(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    words = (
        *("/usr/share/x", "/etc/localtime", "/proc/self", f"{HOME}/notes.db", "/api/v1", "/", "/dev/null"),
        *(str(tmp_path / "given" / "new.db"), str(tmp_path / "new" / "data.db"), str(tmp_path)),
    )
    settings = fake(
        args=words, paths=(str(tmp_path / "given"),), env={"TMPDIR": "/tmp", "PATH": str(tmp_path)}
    )
    found = unseen(settings, tmp_path / "home")
    assert [str(one.path) for one in found] == [str(tmp_path / "new" / "data.db"), str(tmp_path)]
    assert [one.folder for one in found] == [tmp_path / "new", None]  # it holds the home of Rumi


@pytest.mark.parametrize("place", ["argument", "option", "variable", "address"])
@pytest.mark.parametrize("exists", [True, False])
async def test_a_file_that_would_be_lost_is_refused_before_the_start(
    tmp_path: Path, place: str, exists: bool
) -> None:
    (tmp_path / "home").mkdir()
    file = tmp_path / "data" / "notes.db"
    file.parent.mkdir()
    if exists:
        file.write_text("kept")
    script = "import os,sys; open(os.environ['TO'], 'w')"
    words = {"argument": (str(file),), "option": (f"--db={file}",), "address": (f"sqlite:///{file}",)}
    env = {"TO": str(file)} if place == "variable" else {"TO": "x"}
    settings = fake(command=sys.executable, args=("-c", script, *words.get(place, ())), env=env)
    with pytest.raises(McpError, match="which its sandbox does not have") as refused:
        await try_once(settings, tmp_path / "home", accept=False)
    assert f'paths = ["{file.parent}"]' in str(refused.value)
    assert f"{HOME}/notes.db" in str(refused.value)
    assert file.exists() == exists


async def test_a_file_in_a_given_folder_is_written_for_good(tmp_path: Path) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    data.mkdir()
    home.mkdir()
    script = "import sys; open(sys.argv[1], 'w').write('kept')"
    settings = fake(command=sys.executable, args=("-c", script, str(data / "new.db")), paths=(str(data),))
    with pytest.raises(ServerFailed):
        await try_once(settings, home, accept=False)
    assert (data / "new.db").read_text() == "kept"


async def test_a_folder_that_is_not_given_takes_no_writes(tmp_path: Path) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    data.mkdir()
    (data / "mine").write_text("mine")
    home.mkdir()
    script = "import os,sys; print(os.listdir(sys.argv[1]), file=sys.stderr); open(sys.argv[1] + '/x', 'w')"
    settings = fake(command=sys.executable, args=("-c", script, str(data)))
    (hidden,) = hidden_folders(settings, home)
    assert (hidden.path, hidden.folder) == (data, data)
    with pytest.raises(ServerFailed) as failed:
        await try_once(settings, home, accept=False)
    assert "[]" in failed.value.lines
    assert "Read-only file system" in str(failed.value)
    assert f'paths = ["{data}"]' in str(failed.value)


async def test_a_home_of_the_users_is_used_if_it_is_given(tmp_path: Path) -> None:
    own, home = tmp_path / "own", tmp_path / "home"
    own.mkdir()
    (own / ".config").write_text("mine")
    home.mkdir()
    script = "import os,sys; print(open(os.path.expanduser('~/.config')).read(), file=sys.stderr)"
    settings = fake(command=sys.executable, args=("-c", script), env={"HOME": str(own)})
    with pytest.raises(McpError, match="which its sandbox does not have"):
        await try_once(settings, home, accept=False)
    given = fake(command=sys.executable, args=("-c", script), env={"HOME": str(own)}, paths=(str(own),))
    with pytest.raises(ServerFailed) as failed:
        await try_once(given, home, accept=False)
    assert failed.value.lines == ("mine",)


async def test_a_configuration_of_the_users_is_at_its_place_in_the_servers_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, home = tmp_path / "user", tmp_path / "rumi"
    (user / ".kube").mkdir(parents=True)
    (user / ".kube" / "config").write_text("the cluster")
    home.mkdir()
    monkeypatch.setenv("HOME", str(user))
    script = "import os,sys; print(open(os.path.expanduser('~/.kube/config')).read(), file=sys.stderr)"
    settings = fake(command=sys.executable, args=("-c", script), paths=("~/.kube",))
    with pytest.raises(ServerFailed) as failed:
        await try_once(settings, home, accept=False)
    assert failed.value.lines == ("the cluster",)
