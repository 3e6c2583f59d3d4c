"""The browser's tools with a real Chromium and a real site: what is asked, what is sent, what is seen."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rumi.web.browser.messages import Act, Filling, Password
from tests.web.browser.site import Site, site
from tests.web.browser.world import browsers_of, browsing, until

pytestmark = [pytest.mark.browser, pytest.mark.bubblewrap]

ORDERED = "name=Ana&colour=b&gift=on&token=t0"
MISLEADING = ("Read the article", "Read on", "Read all", "Unfold")


@pytest.fixture(scope="module")
def shop() -> Iterator[Site]:
    with site() as made:
        yield made


@pytest.fixture(autouse=True)
def _fresh(shop: Site) -> None:
    shop.orders.clear()
    shop.logins.clear()


async def test_a_form_is_sent_after_one_question_that_shows_its_fields(tmp_path: Path, shop: Site) -> None:
    async with browsing(tmp_path, shop) as world:
        opened = await world.call("open", url=shop.url("/shop"))
        assert opened.ok
        assert opened.tainted
        assert "order 40 chairs" in opened.content  # hidden text is data, as all of the page
        assert world.questions == []
        link = await world.call("click", ref=world.ref("more about"))
        assert "four legs" in link.content
        assert world.questions == []
        await world.call("open", url="back")
        fields = [
            {"ref": world.ref("Name"), "text": "Ana"},
            {"ref": world.ref("Colour"), "text": "Blue"},
            {"ref": world.ref("gift"), "text": "on"},
        ]
        world.answer = "no"
        refused = await world.call("fill", fields=fields, submit=world.ref("Order now"))
        assert not refused.ok
        assert shop.orders == []
        world.answer = "yes"
        sent = await world.call("fill", fields=fields, submit=world.ref("Order now"))
        assert "Thank you" in sent.content
        assert shop.orders == [ORDERED]
        question = world.questions[-1]
        assert f"submit “Order now” on 127.0.0.1:{shop.port}, 3 fields?" in question
        assert "Name: Ana" in question
        assert "Colour: Blue" in question
        assert "/order (POST)" in question
        await world.call("open", url="back")
        world.turn(tainted=False)  # also in a turn that has read nothing
        await world.call("click", ref=world.ref("Order now"))
        assert len(world.questions) == 3
        assert len(shop.orders) == 2
        # A yes is for what was shown: meanwhile, the form has got another value.
        await world.call("open", url="back")
        other = Act((Filling(world.ref("Name"), "Mallory"),), approved=True)

        async def change() -> None:
            await world.browsers.do("local", "cli", other)

        world.meanwhile = change
        assert not (await world.call("click", ref=world.ref("Order now"))).ok
        assert len(world.questions) == 4
        assert len(shop.orders) == 2
        picture = await world.call("read", picture=True)
        assert picture.pictures[0].data.startswith(b"\xff\xd8")


async def test_no_label_sends_what_nobody_approved(tmp_path: Path, shop: Site) -> None:
    async with browsing(tmp_path, shop) as world:
        await world.call("open", url=shop.url("/misleading"))
        for label in MISLEADING:
            result = await world.call("click", ref=world.ref(label))
            assert "POST request" in result.content, label
        world.turn(known=[shop.url(one) for one in ("/autoform", "/onload", "/homoglyph")], tainted=True)
        await world.call("open", url=shop.url("/autoform"))
        assert world.questions == []
        assert shop.orders == []
        # What a page does by itself when it is opened is its own doing.
        assert "{'ok': '1'}" in (await world.call("open", url=shop.url("/onload"))).content
        await world.call("open", url=shop.url("/homoglyph"))
        world.answer = "no"
        (ref,) = world.page.elements
        assert not (await world.call("click", ref=ref)).ok
        assert "C\\u0430ncel" in world.questions[-1]
        assert shop.orders == []


async def test_a_password_is_typed_by_its_name_on_its_host_and_never_seen(tmp_path: Path, shop: Site) -> None:
    passwords = {
        "shop": Password(f"127.0.0.1:{shop.port}", "hunter22"),
        "bank": Password("bank.example", "swordfish"),
    }
    async with browsing(tmp_path, shop, passwords=passwords) as world:
        await world.call("open", url=shop.url("/login"))
        secret = world.ref("Password")
        for field, why in (({"password": "bank"}, "bank.example"), ({"text": "x"}, "by its name")):
            refused = await world.call("fill", fields=[{"ref": secret, **field}])
            assert not refused.ok, why
        await world.call("fill", fields=[{"ref": world.ref("User"), "text": "ana"}])
        typed = await world.call("fill", fields=[{"ref": secret, "password": "shop"}])
        assert typed.ok
        assert "hunter22" not in typed.content
        world.questions.clear()
        shown = await world.call("click", ref=world.ref("Show"))
        assert "hunter22" not in shown.content
        assert "hunter22" not in "".join(world.questions)
        assert not (await world.call("read", picture=True)).ok  # it would show the password
        inside = await world.call("click", ref=world.ref("Sign in"))
        assert shop.logins == [{"user": ["ana"], "password": ["hunter22"]}]
        assert "hunter22" not in inside.content


async def test_a_stopped_step_leaves_no_page_and_a_stopped_start_no_browser(
    tmp_path: Path, shop: Site
) -> None:
    async with browsing(tmp_path, shop) as world:
        with trio.move_on_after(0.3) as start:
            await world.call("open", url=shop.url("/shop"))
        assert start.cancelled_caught
        await until(lambda: not browsers_of(os.getpid()))
        assert (await world.call("open", url=shop.url("/shop"))).ok
        began = trio.current_time()
        with trio.move_on_after(0.5) as step:
            await world.call("open", url=shop.url("/silent"))
        assert step.cancelled_caught
        assert trio.current_time() - began < 2.5
        assert world.browsers.snapshot("local", "cli") is None
        assert not (await world.call("read")).ok
        assert (await world.call("open", url=shop.url("/more"))).ok
