"""Who may call and who waits, with a clock that the tests move."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from rumi.models.limits import CallLimits, Ticket, Wait
from rumi.models.rates import RateLimits, Window

MODEL = "groq:big"


class Desk:
    """Limits with a clock of its own, and the order in which chats were granted."""

    def __init__(self, concurrency: int = 1) -> None:
        self.limits = CallLimits(concurrency)
        self.now = 1000.0
        self.order: list[str] = []

    def enter(self, chat: str, tokens: int = 10, model: str = MODEL, server: str = "groq") -> Ticket:
        return self.limits.enter(chat, server, model, tokens, lambda: self.order.append(chat), self.now)

    def leave(self, ticket: Ticket) -> None:
        self.limits.leave(ticket, self.now)

    def saw(self, limits: RateLimits, ticket: Ticket | None = None, model: str = MODEL) -> None:
        self.limits.saw(model, ticket, limits, self.now)

    def later(self, seconds: float) -> float:
        self.now += seconds
        return self.limits.pump(self.now)


def test_no_more_calls_run_at_a_server_than_it_may_have() -> None:
    desk = Desk(concurrency=2)
    first = desk.enter("a")
    desk.enter("b")
    desk.enter("c", model="groq:small")
    desk.enter("d", server="custom:mine", model="custom:mine")
    assert desk.order == ["a", "b", "d"]
    desk.leave(first)
    assert desk.order == ["a", "b", "d", "c"]


def test_the_chat_that_used_least_is_next_and_among_equals_the_first() -> None:
    desk = Desk()
    running = desk.enter("busy", tokens=5000)
    for chat in ("busy", "busy", "quiet", "other"):
        desk.enter(chat)
    assert desk.limits.waiting == 4
    desk.leave(running)
    assert desk.order == ["busy", "quiet"]


def test_use_is_forgotten_after_a_minute() -> None:
    desk = Desk()
    running = desk.enter("busy", tokens=5000)
    desk.later(61)
    desk.enter("busy")
    desk.enter("quiet")
    desk.leave(running)
    assert desk.order == ["busy", "busy"]


def test_a_caller_that_waits_no_more_is_passed_over() -> None:
    desk = Desk()
    running = desk.enter("a")
    gone = desk.enter("b")
    desk.enter("c")
    desk.leave(gone)
    desk.leave(running)
    assert desk.order == ["a", "c"]
    assert desk.limits.waiting == 0


def test_a_cool_down_holds_back_its_model_only() -> None:
    desk = Desk(concurrency=8)
    desk.saw(RateLimits(retry_after_s=20))
    desk.enter("a")
    desk.enter("b", model="groq:small")
    assert desk.order == ["b"]
    assert desk.limits.wait("groq", MODEL, 10, desk.now) == Wait(20, "cool_down")
    assert desk.later(5) == desk.now + 15
    assert desk.order == ["b"]
    assert desk.later(15) == inf
    assert desk.order == ["b", "a"]


def test_a_shorter_cool_down_does_not_end_a_longer_one() -> None:
    desk = Desk()
    desk.saw(RateLimits(retry_after_s=20))
    desk.saw(RateLimits(retry_after_s=2))
    assert desk.limits.wait("groq", MODEL, 10, desk.now) == Wait(20, "cool_down")


def test_tokens_come_back_evenly_until_the_window_is_full() -> None:
    desk = Desk(concurrency=8)
    desk.saw(RateLimits(tokens=Window(8000, 2000, 45)))
    assert desk.limits.wait("groq", MODEL, 2000, desk.now) is None
    assert desk.limits.wait("groq", MODEL, 4000, desk.now) == Wait(15, "budget")
    desk.later(15)
    assert desk.limits.wait("groq", MODEL, 4000, desk.now) is None
    assert desk.limits.wait("groq", MODEL, 9000, desk.now) == Wait(30, "budget")
    desk.later(30)
    assert desk.limits.wait("groq", MODEL, 9000, desk.now) is None


def test_calls_that_the_server_has_not_counted_yet_count_here() -> None:
    desk = Desk(concurrency=8)
    desk.saw(RateLimits(tokens=Window(8000, 5000, 60)))
    first = desk.enter("a", tokens=3000)
    desk.enter("b", tokens=3000)
    assert desk.order == ["a"]
    desk.saw(RateLimits(tokens=Window(8000, 3000, 60)), first)
    assert desk.order == ["a", "b"]


def test_a_large_request_is_not_overtaken_for_ever_by_small_ones() -> None:
    desk = Desk(concurrency=8)
    desk.saw(RateLimits(tokens=Window(8000, 1000, 60)))
    desk.enter("large", tokens=6000)
    desk.enter("small", tokens=10)
    assert desk.order == []
    desk.later(60)
    assert desk.order == ["large", "small"]


def test_the_budget_of_requests_counts_too() -> None:
    desk = Desk(concurrency=8)
    desk.saw(RateLimits(requests=Window(1000, 1, 600)))
    desk.enter("a")
    desk.enter("b")
    assert desk.order == ["a"]


def test_the_status_says_what_runs_waits_and_cools_down() -> None:
    desk = Desk()
    desk.enter("a")
    desk.enter("b")
    desk.saw(RateLimits(retry_after_s=12))
    assert desk.limits.describe(desk.now) == "1 running, 1 waiting, groq:big cools down for 12 s"


@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(st.sampled_from(["busy", "a", "b", "c"]), st.integers(1, 5000), st.integers(0, 3)),
        max_size=40,
    ),
)
def test_nobody_waits_behind_a_chat_that_used_more(
    concurrency: int, arrivals: list[tuple[str, int, int]]
) -> None:
    desk = Desk(concurrency)
    tickets: list[Ticket] = []
    used: dict[str, int] = {}
    granted: set[int] = set()

    def check() -> None:
        new = sorted((t for t in tickets if t.granted and t.number not in granted), key=lambda t: t.number)
        for ticket in new:
            granted.add(ticket.number)
        waiting = [t for t in tickets if not t.granted]
        assert desk.limits.running <= concurrency
        assert not waiting or desk.limits.running == concurrency
        if len(new) == 1:
            rank = used.get(new[0].chat, 0), new[0].number
            assert all(rank <= (used.get(t.chat, 0), t.number) for t in waiting)
        for ticket in new:
            used[ticket.chat] = used.get(ticket.chat, 0) + ticket.tokens

    for chat, tokens, leaving in arrivals:
        tickets.append(desk.enter(chat, tokens))
        check()
        for _ in range(leaving):
            running = [t for t in tickets if t.granted]
            if running:
                tickets.remove(running[0])
                desk.leave(running[0])
                check()
    while tickets:
        running = [t for t in tickets if t.granted]
        assert running, "somebody waits although nothing runs"
        tickets.remove(running[0])
        desk.leave(running[0])
        check()
    assert desk.limits.running == desk.limits.waiting == 0


# How many at once


class Server:
    """A server that takes so many calls at once, each for two seconds; the rest it refuses."""

    def __init__(self, takes: int, max_concurrent: int | None = None) -> None:
        self.takes = takes
        self.limits = CallLimits(max_concurrent)
        self.now = 0.0
        self.answered = self.refused = self.most = 0
        self.waiting: list[Ticket] = []
        self.running: list[tuple[float, Ticket]] = []
        self.again: list[tuple[float, str]] = []

    def ask(self, chat: str) -> None:
        self.waiting.append(self.limits.enter(chat, "s", "m", 10, lambda: None, self.now))

    def run(self, calls: int) -> float:
        """Let so many chats ask at once, and again when they are refused; how long until all are answered."""
        for number in range(calls):
            self.ask(f"c{number}")
        while self.answered < calls:
            while begun := next((ticket for ticket in self.waiting if ticket.granted), None):
                self.waiting.remove(begun)
                if len(self.running) < self.takes:
                    self.running.append((self.now + 2, begun))
                    self.most = max(self.most, len(self.running))
                else:
                    self.refused += 1
                    self.end(begun, refused=True)
                    self.again.append((self.now + 1, begun.chat))
            self.now = min(time for time, _ in [*self.running, *self.again])
            for time, ticket in [call for call in self.running if call[0] <= self.now]:
                self.running.remove((time, ticket))
                self.answered += 1
                self.end(ticket, refused=False)
            for retry in [call for call in self.again if call[0] <= self.now]:
                self.again.remove(retry)
                self.ask(retry[1])
        return self.now

    def end(self, ticket: Ticket, *, refused: bool) -> None:
        self.limits.leave(ticket, self.now, refused)


def test_a_server_that_takes_all_gets_twice_as_many_each_round() -> None:
    assert Server(takes=10_000).run(100) == 2
    assert Server(takes=10_000).run(1000) == 8
    assert Server(takes=10_000, max_concurrent=1000).run(1000) == 2


def test_a_server_that_refuses_calls_gets_as_many_as_it_takes() -> None:
    server = Server(takes=20)
    took_s = server.run(1000)
    assert server.most == 20
    assert took_s < 1.4 * 2 * 1000 / 20
    assert server.refused < 130
    before = server.refused
    server.answered = 0
    server.run(1000)
    assert server.refused - before < 30


def test_no_more_calls_run_than_the_configuration_says() -> None:
    server = Server(takes=10_000, max_concurrent=7)
    server.run(100)
    assert server.most == 7


def test_a_refusal_for_a_spent_budget_says_nothing_of_how_many_may_run() -> None:
    for left, limit in ((0, 100), (8000, 25)):
        limits = CallLimits()
        ticket = limits.enter("c", "s", "m", 10, lambda: None, 0.0)
        limits.saw("m", ticket, RateLimits(tokens=Window(8000, left, 60)), 0.0)
        limits.leave(ticket, 0.0, True)
        assert limits.metrics(0.0)["servers"] == {"s": {"running": 0, "limit": limit}}


def test_the_limit_goes_up_only_while_it_holds_calls_back() -> None:
    server = Server(takes=10_000)
    for _ in range(50):
        server.answered = 0
        server.run(10)
    assert server.limits.metrics(0.0)["servers"] == {"s": {"running": 0, "limit": 100}}
