"""Who fetches when: bounds in all, for a host and for a chat; a flood of one chat's holds up nobody else."""

import pytest
import trio

from rumi.platform.fair_limiter import FairLimiter, LimiterBounds, NoTurn
from rumi.web.messages import PageText, SearchResults, SearchWeb
from rumi.web.readers.pages.readers import Readers
from tests.fakes.web_server import Asked, gives, redirects, serving, silence
from tests.web.fetching import Names, children, fetcher, open_sockets

PAGES = {f"/{n}": gives(f"<p>page {n}</p>", headers={"Cache-Control": "no-store"}) for n in range(200)}


def turns_of(
    at_once: int = 32, per_host: int = 4, per_chat: int = 8, waiting_per_chat: int = 64, wait_s: float = 60
) -> FairLimiter:
    return FairLimiter(LimiterBounds(at_once, per_chat, per_host, waiting_per_chat, wait_s))


class Crowd:
    """Fetches that take a second each; `most` is how many there were at once, by what they have in common."""

    def __init__(self, fair_limiter: FairLimiter) -> None:
        self.fair_limiter = fair_limiter
        self.ended: list[str] = []
        self.running: list[tuple[str, str]] = []
        self.most = {"all": 0, "host": 0, "chat": 0}

    async def one(self, chat: str, host: str, *then: str) -> None:
        async with self.fair_limiter.turn(chat, host) as turn:
            await self._work(chat, host)
            for other in then:
                await self.fair_limiter.move(turn, other)
                await self._work(chat, other)
        self.ended.append(chat)

    async def _work(self, chat: str, host: str) -> None:
        self.running.append((chat, host))
        counts = {
            "all": len(self.running),
            "host": sum(1 for _, its in self.running if its == host),
            "chat": sum(1 for its, _ in self.running if its == chat),
        }
        self.most = {what: max(count, self.most[what]) for what, count in counts.items()}
        assert self.fair_limiter.running >= len(self.running)  # some have theirs and do not know yet
        try:
            await trio.sleep(1)
        finally:
            self.running.remove((chat, host))


async def test_two_hundred_at_once_keep_all_bounds(autojump_clock: trio.testing.MockClock) -> None:
    crowd = Crowd(turns_of(at_once=32, per_host=4, per_chat=8))
    async with trio.open_nursery() as nursery:
        for n in range(200):
            nursery.start_soon(crowd.one, f"chat{n % 50}", f"host{n % 11}.test")
    assert crowd.most["all"] == 32
    assert crowd.most["host"] == 4
    assert (crowd.fair_limiter.running, crowd.fair_limiter.waiting) == (0, 0)
    assert len(crowd.ended) == 200


async def test_one_chat_gets_its_share_and_no_more(autojump_clock: trio.testing.MockClock) -> None:
    crowd = Crowd(turns_of(per_chat=8))
    async with trio.open_nursery() as nursery:
        for n in range(60):
            nursery.start_soon(crowd.one, "one", f"host{n}.test")
    assert crowd.most["chat"] == 8
    assert trio.current_time() == pytest.approx(60 / 8, abs=1)


async def test_a_flood_of_one_chat_does_not_hold_up_another(autojump_clock: trio.testing.MockClock) -> None:
    fair_limiter = turns_of(at_once=4, per_chat=4)
    crowd = Crowd(fair_limiter)
    async with trio.open_nursery() as nursery:
        for n in range(60):
            nursery.start_soon(crowd.one, "flood", f"host{n}.test")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        async with fair_limiter.turn("other", "a.test"):
            assert trio.current_time() - began <= 1
        nursery.cancel_scope.cancel()
    assert (fair_limiter.running, fair_limiter.waiting) == (0, 0)


async def test_a_flood_at_one_host_does_not_hold_up_its_other_visitors(
    autojump_clock: trio.testing.MockClock,
) -> None:
    fair_limiter = turns_of(per_host=2)
    crowd = Crowd(fair_limiter)
    async with trio.open_nursery() as nursery:
        for _ in range(40):
            nursery.start_soon(crowd.one, "flood", "busy.test")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        async with fair_limiter.turn("other", "busy.test"):
            assert trio.current_time() - began <= 1
        async with fair_limiter.turn("flood", "quiet.test"):  # nor is it held up itself at other hosts
            assert trio.current_time() - began <= 1
        nursery.cancel_scope.cancel()


async def test_redirects_keep_the_bound_of_the_host_that_they_lead_to(
    autojump_clock: trio.testing.MockClock,
) -> None:
    crowd = Crowd(turns_of(per_host=4, per_chat=100, at_once=100))
    async with trio.open_nursery() as nursery:
        for n in range(40):
            nursery.start_soon(crowd.one, "one", f"host{n}.test", "all.test")
    assert crowd.most["host"] == 4
    assert len(crowd.ended) == 40
    assert (crowd.fair_limiter.running, crowd.fair_limiter.waiting) == (0, 0)


async def test_who_waits_for_too_long_is_told(autojump_clock: trio.testing.MockClock) -> None:
    fair_limiter = turns_of(at_once=1, wait_s=60)
    async with fair_limiter.turn("one", "a.test"):
        with pytest.raises(NoTurn) as late:
            async with fair_limiter.turn("two", "b.test"):
                raise AssertionError
        assert late.value.late
        assert trio.current_time() == pytest.approx(60, abs=1)
        assert (fair_limiter.running, fair_limiter.waiting) == (1, 0)


async def test_too_many_of_one_chat_are_turned_away_at_once() -> None:
    fair_limiter = turns_of(at_once=1, waiting_per_chat=3)
    async with fair_limiter.turn("one", "a.test"), trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(Crowd(fair_limiter).one, "one", "a.test")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(NoTurn) as refused:
            async with fair_limiter.turn("one", "a.test"):
                raise AssertionError
        assert not refused.value.late
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("moment_s", [0, 0.5, 1, 1.5, 2, 2.5, 3])
async def test_a_cancellation_at_any_moment_gives_turns_back(
    moment_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    fair_limiter = turns_of(at_once=3, per_host=2, per_chat=2)
    crowd = Crowd(fair_limiter)
    with trio.move_on_after(moment_s):
        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(crowd.one, f"chat{n % 4}", f"host{n % 3}.test", "other.test", "last.test")
    assert (fair_limiter.running, fair_limiter.waiting) == (0, 0)
    async with fair_limiter.turn("chat1", "host1.test"):
        assert fair_limiter.running == 1


async def test_two_hundred_real_fetches_at_once_of_fifty_chats() -> None:
    sockets, processes = open_sockets(), children()
    names = Names(**{f"host{n}_test": ["127.0.0.1"] for n in range(10)})
    texts: dict[int, str] = {}
    async with serving(PAGES) as server:
        async with fetcher(server.endpoint, resolver=names, at_once=32, per_host=4, per_chat=8) as world:

            async def one(n: int) -> None:
                url = server.url(f"/{n}", host=f"host{n % 10}.test")
                texts[n] = (await world.fetch(url, chat=f"chat{n % 50}")).text

            async with trio.open_nursery() as nursery:
                for n in range(200):
                    nursery.start_soon(one, n)
            assert world.activity() == "0 fetching, 0 waiting, 0 searching"
            await server.until(lambda it: it.open == 0)
        assert server.most_open <= 32
    assert texts == {n: f"page {n}" for n in range(200)}
    assert open_sockets() == sockets
    assert children() <= processes


async def test_what_runs_and_waits_is_seen() -> None:
    async with serving({"/": silence}) as server, fetcher(server.endpoint, per_host=2) as world:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(world.fetch, server.url())
            await server.until(lambda it: len(it.asked) == 2)
            assert world.activity() == "2 fetching, 3 waiting, 0 searching"
            assert server.connections == 2
            nursery.cancel_scope.cancel()
        assert world.activity() == "0 fetching, 0 waiting, 0 searching"


async def test_a_redirect_to_a_busy_host_waits_without_a_connection() -> None:
    names = Names(a_test=["127.0.0.1"], b_test=["127.0.0.1"])

    def to_b(asked: Asked) -> str:
        return f"http://b.test:{asked.headers['host'].partition(':')[2]}/end"

    async with serving({"/": redirects(to_b), "/end": gives("end"), "/slow": silence}) as server:
        async with fetcher(server.endpoint, resolver=names, per_host=1, timeout_s=60) as world:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(world.fetch, server.url("/slow", host="b.test"), "other")
                await server.until(lambda it: it.open == 1)
                nursery.start_soon(world.fetch, server.url(host="a.test"))
                await server.until(lambda it: len(it.asked) == 2)
                await server.until(lambda it: it.open == 1)
                assert world.activity() == "1 fetching, 1 waiting, 0 searching"
                nursery.cancel_scope.cancel()


async def test_pages_that_take_long_to_read_keep_only_their_own_chat_waiting() -> None:
    class Slow(Readers):
        async def read(
            self, body: bytes, *, media_type: str, charset: str | None, url: str, max_chars: int
        ) -> PageText:
            if body == b"slow":
                await trio.sleep_forever()
            return await super().read(
                body, media_type=media_type, charset=charset, url=url, max_chars=max_chars
            )

    paths = {"/slow": gives("slow"), "/": gives("<p>quick</p>")}
    async with serving(paths) as server, fetcher(server.endpoint, readers=Slow()) as world:
        async with trio.open_nursery() as nursery:
            for n in range(8):
                nursery.start_soon(world.fetch, server.url(f"/slow?{n}"), "flood")
            await server.until(lambda it: len(it.asked) == 8 and it.open == 0)
            with trio.fail_after(30):
                page = await world.fetch(server.url(), "other")
            assert page.text == "quick"
            nursery.cancel_scope.cancel()
        assert world.activity() == "0 fetching, 0 waiting, 0 searching"


async def test_a_flood_of_searches_does_not_hold_up_another_chat() -> None:
    running: list[str] = []

    async def search(request: SearchWeb) -> SearchResults:
        running.append(request.chat)
        if request.chat == "flood":
            await trio.sleep_forever()
        return SearchResults("test", ())

    async with fetcher(search=search, searches_at_once=4, searches_per_chat=2) as world:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(world.ref.ask, SearchWeb("query", "flood"))
            await trio.testing.wait_all_tasks_blocked()
            assert await world.ref.ask(SearchWeb("query", "other")) == SearchResults("test", ())
            assert running == ["flood", "flood", "other"]
            assert world.activity() == "0 fetching, 0 waiting, 2 searching"
            nursery.cancel_scope.cancel()
        assert world.activity() == "0 fetching, 0 waiting, 0 searching"
