"""What servers may answer to a clone: git's protocol, and everything else. No sandbox is needed for these."""

import gzip
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme

from rumi.errors import RumiError
from rumi.platform.spooled_file import SpooledFile
from rumi.platform.threads import Threads
from rumi.tasks.research.repository.address import parse_address
from rumi.tasks.research.repository.errors import CloneError
from rumi.tasks.research.repository.refs import Refs
from rumi.tasks.research.repository.remote import MOST_REFS, FetchRequest, Remote
from rumi.web.fetch.stream import GuardedStreams
from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchError, FetchRefused
from rumi.web.network import GuardedNetwork
from tests.fakes.git_server import (
    ADVERTISED,
    CAPABILITIES,
    RESULT,
    advertises,
    answers,
    dripping,
    git,
    history,
    imported,
    line,
    lists,
    serves,
)
from tests.fakes.web_server import (
    Answering,
    WebServer,
    certificate,
    gives,
    redirects,
    says,
    serving,
    silence,
    streams,
    then_silence,
    trusting,
)
from tests.web.fetching import Names, open_sockets

OID = "1" * 40
MAIN = f"{OID} refs/heads/main"
HEAD = f"{OID} HEAD symref-target:refs/heads/main"
BOUND_S = 30


@asynccontextmanager
async def talking(paths: Mapping[str, Answering]) -> AsyncIterator[tuple[WebServer, Callable[[str], Remote]]]:
    """A server, and how to make remotes of it."""
    ca = trustme.CA()
    before = open_sockets()
    async with serving(paths, certificate(ca, "127.0.0.1")) as server:
        network = GuardedNetwork(AddressGuard(Names(), [server.endpoint]))
        made = GuardedStreams(network, tls=trusting(ca))
        with trio.fail_after(BOUND_S):
            yield server, lambda path: Remote(made, server.url(path))
            await server.until(lambda server: server.open == 0)
    assert open_sockets() == before


def at(
    refs: Answering, fetch: Answering | None = None, first: Answering | None = None
) -> dict[str, Answering]:
    return {"/r/info/refs": first or advertises(), "/r/git-upload-pack": answers(refs, fetch)}


async def refs_of(paths: Mapping[str, Answering]) -> Refs:
    """What a remote has; or the error, which leaves the server's nursery alone."""
    trouble: RumiError | None = None
    async with talking(paths) as (_, remote):
        made = remote("/r")
        try:
            await made.connect()
            return await made.refs()
        except (CloneError, FetchError) as error:
            trouble = error
    raise trouble


async def pack_of(fetch: Answering, folder: Path, *, most_bytes: int = 1_000_000, time_s: float = 20) -> int:
    """The size of a pack; or the error."""
    trouble: RumiError | None = None
    async with talking(at(lists(HEAD, MAIN), fetch)) as (_, remote):
        made = remote("/r")
        await made.connect()
        with SpooledFile(folder, Threads()) as spooled:
            request, quiet = FetchRequest([OID], depth=1), lambda _: None
            try:
                await made.fetch(request, spooled, most_bytes=most_bytes, time_s=time_s, progress=quiet)
                return spooled.size
            except (CloneError, FetchError) as error:
                trouble = error
    raise trouble


async def test_a_real_server_gives_its_references_and_a_pack(tmp_path: Path) -> None:
    origin = imported(tmp_path / "served" / "r", history(1100))
    paths = dict.fromkeys(("/r/info/refs", "/r/git-upload-pack"), serves(tmp_path / "served"))
    async with talking(paths) as (server, remote):
        made = remote("/r")
        await made.connect()
        refs = await made.refs()
        head = git(origin, "rev-parse", "main")
        assert (refs.head, refs.head_oid) == ("refs/heads/main", head)
        assert refs.by_name["refs/tags/v1"].oid == git(origin, "rev-parse", "v1")
        assert refs.by_name["refs/tags/v1"].commit == git(origin, "rev-parse", "v1^{commit}")
        with SpooledFile(tmp_path, Threads()) as landing:
            fetched = await made.fetch(
                FetchRequest([head], depth=2), landing, most_bytes=10**6, time_s=20, progress=lambda _: None
            )
            landing.file.seek(0)
            pack = landing.file.read()
        assert pack[:4] == b"PACK"
        assert fetched.shallow == {git(origin, "rev-parse", "main~1")}
        assert fetched.filtered
        git(tmp_path, "init", "-q", "--bare", "mine")
        assert "pack\t" in git(tmp_path / "mine", "index-pack", "--stdin", stdin=pack)
        assert all(request.headers["git-protocol"] == "version=2" for request in server.asked)


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (gives("<html>not git</html>"), "does not answer as a git server"),
        (advertises(b""), "does not answer as a git server"),
        (advertises(b"zzzzversion 2\n"), "does not answer as a git server"),
        (advertises(b"0003"), "does not answer as a git server"),
        (advertises(b"+00c12345678"), "does not answer as a git server"),
        (advertises(b"fff1" + b"x" * 70_000), "does not answer as a git server"),
        (advertises(b"ffe0version 2\n"), "does not answer as a git server"),
        (advertises(line("version 2\n") + b"0001"), "does not answer as a git server"),
        (advertises(line("version 2\n") + line(b"\xff\xfe\n") + b"0000"), "does not answer as a git server"),
        (advertises(line("version 2\n") + b"0000"), "version 2"),
        (advertises(line(f"{OID} HEAD\0side-band-64k\n") + b"0000"), "version 2"),
        (advertises(CAPABILITIES + line("object-format=md5\n") + b"0000"), "does not answer as a git server"),
        (gives("no", 404), "no public repository"),
        (gives("who are you", 401), "no public repository"),
        (gives("broken", 500), "HTTP 500"),
        (
            gives(b"x", headers={"Content-Encoding": "gzip"}, media_type=ADVERTISED),
            "is damaged|ends too early",
        ),
        (gives(b"x", headers={"Content-Encoding": "sdch"}), "unrequested compression"),
        (gives("<!doctype html><title>Sign in</title>"), "it sends a web page"),
        (gives("<p>Log in", media_type="application/octet-stream"), "it sends a web page"),
        (gives("{}", media_type="application/json"), "does not answer as a git server"),
        (gives(f"{OID}\trefs/heads/main\n", media_type="text/plain"), "only as files"),
        (gives("", 403), r"HTTP 403\): the server forbids it"),
        (gives("", 401), r"HTTP 401\): the server asks for a login"),
        (gives("", 404), r"HTTP 404\): nothing is there"),
        (gives("", 407), "a proxy asks for a login"),
        (gives("", 410), "no public repository"),
        (gives("", 429), "HTTP 429"),
        (gives("", 503), "HTTP 503"),
        (advertises(line("ERR access denied\n") + b"0000"), "refuses: access denied"),
        (advertises(line("version 2\n") + line("ERR upgrade your client\n")), "refuses: upgrade your client"),
        (redirects("/elsewhere"), "redirects to something"),
        (redirects("http://127.0.0.1/r/info/refs?service=git-upload-pack"), "from https to http"),
        (redirects("https://10.0.0.1/r/info/refs?service=git-upload-pack"), "not public"),
        (redirects("https://169.254.169.254/latest"), "not public"),
        (redirects("/r/info/refs?service=git-upload-pack"), "in a circle"),
    ],
)
async def test_a_server_that_is_no_git_server_of_today_is_refused(first: Answering, why: str) -> None:
    paths = at(lists(HEAD, MAIN), first=first) | {"/elsewhere": advertises()}
    with pytest.raises((CloneError, FetchError), match=why):
        await refs_of(paths)


async def test_a_redirect_of_the_first_request_holds_for_the_next_ones() -> None:
    paths = at(lists(HEAD, MAIN)) | {"/old/info/refs": redirects("/r/info/refs?service=git-upload-pack")}
    async with talking(paths) as (server, remote):
        made = remote("/old")
        await made.connect()
        assert (await made.refs()).head == "refs/heads/main"
        assert [request.target.partition("?")[0] for request in server.asked] == [
            "/old/info/refs",
            "/r/info/refs",
            "/r/git-upload-pack",
        ]


async def test_a_server_may_name_its_service_first() -> None:
    first = advertises(line("# service=git-upload-pack\n") + b"0000" + CAPABILITIES + b"0000")
    assert (await refs_of(at(lists(HEAD, MAIN), first=first))).head == "refs/heads/main"


async def test_a_redirect_of_a_post_is_not_followed() -> None:
    with pytest.raises(CloneError, match="HTTP 307"):
        await refs_of(at(redirects("/elsewhere", 307)) | {"/elsewhere": lists(HEAD, MAIN)})


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ((HEAD, f"{OID} --upload-pack=touch /tmp/x"), "name that git forbids"),
        ((HEAD, f"{OID} refs/heads/../../x"), "name that git forbids"),
        ((HEAD, f"{OID} ../x"), "name that git forbids"),
        ((HEAD, f"{OID} refs/heads/.hidden"), "name that git forbids"),
        ((HEAD, f"{OID} refs/heads/a.lock"), "name that git forbids"),
        ((HEAD, f"{OID} refs/heads/a.lock/b"), "name that git forbids"),
        ((HEAD, f"{OID} refs/heads/"), "name that git forbids"),
        ((HEAD, f"{OID} refs/heads//a"), "name that git forbids"),
        ((HEAD, f"{OID} refs/heads/a\nupdate"), "name that git forbids"),
        ((HEAD, f"{OID} refs/heads/a\0b"), "name that git forbids"),
        ((HEAD, f"{OID} refs/heads/@{{-1}}"), "name that git forbids"),
        ((HEAD, f"{OID} refs/heads/{'x' * 2000}"), "name that git forbids"),
        ((HEAD, f"{'1' * 39} refs/heads/main"), "does not answer as a git server"),
        ((HEAD, f"{'g' * 40} refs/heads/main"), "does not answer as a git server"),
        ((HEAD, f"{'1' * 64} refs/heads/main"), "does not answer as a git server"),
        ((HEAD, f"{MAIN} peeled:../x"), "does not answer as a git server"),
        ((OID,), "name that git forbids"),
        ((), "empty"),
        (("ERR no such repository",), "refuses: no such repository"),
    ],
)
async def test_references_that_no_server_may_have_are_refused(rows: tuple[str, ...], why: str) -> None:
    with pytest.raises(CloneError, match=why):
        await refs_of(at(lists(*rows)))


@pytest.mark.parametrize(
    ("rows", "head", "dangling"),
    [
        ((f"{OID} refs/heads/a", f"{OID} refs/heads/main"), "refs/heads/main", "HEAD"),
        ((f"{OID} refs/heads/develop", f"{OID} refs/heads/a"), "refs/heads/develop", "HEAD"),
        ((f"{OID} refs/heads/gh-pages",), "refs/heads/gh-pages", "HEAD"),
        ((f"{OID} refs/heads/v9", f"{OID} refs/heads/v10"), "refs/heads/v10", "HEAD"),
        ((f"{OID} refs/tags/v2", f"{OID} refs/tags/v10"), "refs/tags/v10", "HEAD"),
        (
            ("unborn HEAD symref-target:refs/heads/master", f"{OID} refs/heads/trunk"),
            "refs/heads/trunk",
            "refs/heads/master",
        ),
        ((f"{OID} HEAD", MAIN), "", ""),
        ((f"{OID} HEAD symref-target:refs/remotes/x", MAIN), "", ""),
    ],
)
async def test_a_head_that_names_no_branch_is_not_an_empty_repository(
    rows: tuple[str, ...], head: str, dangling: str
) -> None:
    refs = await refs_of(at(lists(*rows)))
    assert (refs.head, refs.dangling) == (head, dangling)
    assert refs.find("") is not None


async def test_a_repository_with_an_unborn_head_alone_is_empty() -> None:
    with pytest.raises(CloneError, match="empty"):
        await refs_of(at(lists("unborn HEAD symref-target:refs/heads/main")))


async def test_references_that_were_not_asked_for_are_left_out() -> None:
    refs = await refs_of(at(lists(HEAD, f"{OID} refs/notes/commits", f"{OID} refs/pull/1/head", MAIN)))
    assert list(refs.by_name) == ["refs/heads/main"]


WHOLE = {
    "capabilities": CAPABILITIES,
    "refs": line(f"{HEAD}\n") + line(f"{MAIN}\n"),
    "pack": line("packfile\n") + line(b"\x01PACK" + b"x" * 100) + line(b"\x02done\n"),
}


@pytest.mark.parametrize("part", WHOLE)
@pytest.mark.parametrize("cut", ["between lines", "in a line", "in a length", "with a length", "in a chunk"])
async def test_an_answer_that_was_cut_is_an_error(part: str, cut: str, tmp_path: Path) -> None:
    kind, whole = ADVERTISED if part == "capabilities" else RESULT, WHOLE[part]
    body = {"in a line": whole[:-3], "in a length": whole + b"00"}.get(cut, whole)
    more = {
        "with a length": f"Content-Length: {len(body) + 4}\r\n",
        "in a chunk": "Transfer-Encoding: chunked\r\n",
    }.get(cut, "")
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{more}\r\n".encode()
    body = b"%x\r\n%s\r\n" % (len(body), body) if cut == "in a chunk" else body
    answer = says(head + body)
    with pytest.raises((CloneError, FetchError), match=r"ends too early|did not send all of it"):
        if part == "pack":
            await pack_of(answer, tmp_path)
        else:
            await refs_of(at(lists(HEAD, MAIN), first=answer) if part == "capabilities" else at(answer))
    assert list(tmp_path.iterdir()) == []


async def test_answers_that_are_compressed_are_read_up_to_their_limit(tmp_path: Path) -> None:
    def packed(content: bytes, media_type: str) -> Answering:
        return gives(gzip.compress(content), headers={"Content-Encoding": "gzip"}, media_type=media_type)

    first = packed(CAPABILITIES + b"0000", ADVERTISED)
    listed = packed(line(f"{HEAD}\n") + line(f"{MAIN}\n") + b"0000", RESULT)
    assert (await refs_of(at(listed, first=first))).head == "refs/heads/main"
    bomb = packed(line("packfile\n") + line(b"\x01" + b"x" * 60_000) * 1000, RESULT)
    with pytest.raises(CloneError, match=r"more than the 1\.0 MB"):
        await pack_of(bomb, tmp_path)
    with pytest.raises(FetchError, match="larger than expected"):
        await refs_of(at(packed(line(f"{HEAD}{'x' * 60_000}\n") * 1000, RESULT)))


@pytest.mark.parametrize("part", ["capabilities", "refs", "pack"])
async def test_a_server_that_sends_a_byte_at_a_time_ends_in_time(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rumi.tasks.research.repository.remote._REFS_S", 0.4)
    kind = ADVERTISED if part == "capabilities" else RESULT
    slow = dripping(WHOLE[part], kind)
    with pytest.raises(CloneError, match=r"did not come within 0\.4 s"):
        if part == "pack":
            await pack_of(slow, tmp_path, time_s=0.4)
        else:
            await refs_of(at(lists(HEAD, MAIN), first=slow) if part == "capabilities" else at(slow))


async def test_a_reference_of_another_kind_is_asked_for_by_its_name() -> None:
    async with talking(at(lists(HEAD, f"{OID} refs/pull/7/head", MAIN))) as (server, remote):
        made = remote("/r")
        await made.connect()
        found = await made.other("refs/pull/7/head")
        assert found is not None
        assert (found.oid, found.kind) == (OID, "ref")
        assert await made.other("refs/pull/8/head") is None
        assert await made.other("refs/pull/../x") is None
        assert len(server.asked) == 3


async def test_a_branch_whose_name_looks_like_an_option_is_only_a_name() -> None:
    refs = await refs_of(at(lists(HEAD, MAIN, f"{OID} refs/heads/--upload-pack=x")))
    assert refs.by_name["refs/heads/--upload-pack=x"].oid == OID


async def test_a_default_branch_that_is_not_among_the_branches_is_none() -> None:
    refs = await refs_of(at(lists(f"{OID} HEAD symref-target:../../x", MAIN)))
    assert (refs.head, refs.head_oid) == ("", OID)


async def test_a_name_that_is_no_text_is_left_out() -> None:
    rows = b"".join(map(line, (f"{HEAD}\n", OID.encode() + b" refs/tags/caf\xe9\n", f"{MAIN}\n"))) + b"0000"
    refs = await refs_of(at(gives(rows, media_type=RESULT)))
    assert list(refs.by_name) == ["refs/heads/main"]


async def test_more_references_than_allowed_are_refused_and_not_collected() -> None:
    def rows() -> Iterator[bytes]:
        for at_once in itertools.count():
            yield b"".join(line(f"{OID} refs/heads/b{at_once}-{n}\n") for n in range(1000))

    with pytest.raises(CloneError, match=f"more than {MOST_REFS} branches"):
        await refs_of(at(streams(rows, media_type=RESULT)))


@pytest.mark.long
async def test_an_endless_list_of_the_same_reference_ends() -> None:
    endless = streams(lambda: itertools.repeat(line(f"{HEAD}\n") * 1000), media_type=RESULT)
    with pytest.raises(FetchError, match="did not send all of it"):
        await refs_of(at(endless))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "does not answer as a git server"),
        (b"0000", "does not answer as a git server"),
        (line("packfile\n"), "does not answer as a git server"),
        (line("ERR not our ref\n"), "refuses: not our ref"),
        (line("packfile\n") + line(b"\x03boom\n"), "could not make the pack. It says: boom"),
        (line("packfile\n") + line(b"\x01PACK") + line("ERR out of memory\n"), "refuses: out of memory"),
        (line("packfile\n") + line(b"\x02counting\n") + line(b"\x03"), r"It says: \(nothing\)"),
        (line("shallow-info\n") + line("ERR shallow file has changed\n"), "refuses: shallow file"),
        (line("acknowledgments\n") + line("NAK\n"), "does not answer as a git server"),
        (line("packfile\n") + line(b"\x07what"), "does not answer as a git server"),
        (line("packfile\n") + b"0004", "does not answer as a git server"),
        (line("packfile\n") + line(b"\x01PACK"), "does not answer as a git server"),
        (line("packfile\n") + b"1000\x01PACK", "does not answer as a git server"),
        (line("packfile\n") + b"0001", "does not answer as a git server"),
        (line("acknowledgments\n"), "does not answer as a git server"),
        (line("shallow-info\n") + line("shallow ../../x\n"), "does not answer as a git server"),
        (line("shallow-info\n") + line(f"shallow {OID}\n") + b"0000", "does not answer as a git server"),
    ],
)
async def test_an_answer_that_is_no_pack_is_refused(content: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(CloneError, match=why):
        await pack_of(gives(content, media_type=RESULT), tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_a_pack_ends_at_its_limit(tmp_path: Path) -> None:
    piece = line(b"\x01" + b"x" * 60_000)
    endless = streams(
        lambda: itertools.chain([line("packfile\n")], itertools.repeat(piece * 10)), media_type=RESULT
    )
    with pytest.raises(CloneError, match=r"more than the 1\.0 MB"):
        await pack_of(endless, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "again",
    [
        line(b"\x02 still counting\n") * 4000,
        line("shallow-info\n") + line(f"shallow {OID}\n") * 4000,
    ],
    ids=["progress", "shallow"],
)
async def test_what_is_no_pack_ends_too(again: bytes, tmp_path: Path) -> None:
    first = line("packfile\n") if again.startswith(b"0015\x02") else b""
    endless = streams(lambda: itertools.chain([first], itertools.repeat(again)), media_type=RESULT)
    with pytest.raises((CloneError, FetchError)):
        await pack_of(endless, tmp_path)


async def test_a_server_that_falls_silent_is_given_up(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: " + RESULT.encode() + b"\r\n\r\n"
    with pytest.raises(CloneError, match=r"did not come within 0\.5 s"):
        await pack_of(then_silence(head + line("packfile\n") + line(b"\x01PACK")), tmp_path, time_s=0.5)
    with pytest.raises(CloneError, match=r"did not come within 0\.5 s"):
        await pack_of(silence, tmp_path, time_s=0.5)


async def test_a_server_without_parts_of_histories_is_refused(tmp_path: Path) -> None:
    whole = advertises(b"".join(map(line, ("version 2\n", "ls-refs\n", "fetch\n"))) + b"0000")
    async with talking(at(lists(HEAD, MAIN), first=whole)) as (_, remote):
        made = remote("/r")
        await made.connect()
        with (
            SpooledFile(tmp_path, Threads()) as landing,
            pytest.raises(CloneError, match="no part of a history"),
        ):
            await made.fetch(
                FetchRequest([OID], depth=1), landing, most_bytes=1000, time_s=5, progress=lambda _: None
            )


async def test_an_address_inside_is_refused_before_anything_is_sent() -> None:
    network = GuardedStreams(GuardedNetwork(AddressGuard(Names(inner_example=["10.0.0.7"]))))
    for url in ("https://127.0.0.1/r", "https://inner.example/r", "https://[::1]/r"):
        with pytest.raises(FetchRefused):
            await Remote(network, url).connect()


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("http://example.com/r", "over http"),
        ("ssh://git@example.com/r", "over ssh"),
        ("git@example.com:me/r.git", "over ssh"),
        ("git://example.com/r", "over git"),
        ("ext::sh -c touch% /tmp/x", "over ext"),
        ("EXT::sh", "over ext"),
        ("file:///etc", "over file"),
        ("fd::17", "over fd"),
        ("https://user:secret@example.com/r", "user info"),
        ("https://example.com/r?x=1", r"no \?"),
        ("https://", "not a valid URL"),
        ("/srv/r.git", "command line"),
        ("--upload-pack=x", "command line"),
        ("..", "command line"),
        ("", "command line"),
    ],
)
def test_addresses_that_are_refused(uri: str, why: str) -> None:
    with pytest.raises(CloneError, match=why):
        parse_address(uri, local_allowed=False)


def test_addresses_have_one_form() -> None:
    forms = ("https://Example.COM/me/r/", " https://example.com:443/me/r", "https://example.com/me/./r#top")
    assert {parse_address(form, local_allowed=False).text for form in forms} == {"https://example.com/me/r"}
    assert parse_address("/srv/r.git", local_allowed=True).folder == Path("/srv/r.git")
    for no in ("--upload-pack=x", "", "file:///srv/r.git"):
        with pytest.raises(CloneError):
            parse_address(no, local_allowed=True)
