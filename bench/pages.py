"""Pages for benchmarks: `python -m bench.pages HOSTS` serves 100 KB of HTML at each path of many addresses.

They are loopback's: 127.0.0.1, 127.0.0.2 and so on. The port is printed first. Page `/NAME/7` links to
`/NAME/8` and the next ones, so that following links asks nobody. Each answer takes its time, as on the web.
"""

import sys
from functools import partial
from http import HTTPStatus

import h11
import trio

TAKES_S = 0.3
LINKS = 16
ROWS = 1200


def page(path: str) -> bytes:
    """A report, with links to the pages that follow."""
    folder, _, number = path.rpartition("/")
    first = int(number) + 1 if number.isdigit() else 0
    links = "".join(
        f"<p>What was measured on the day after that, by whom and with which of the instruments, stands in "
        f'<a href="{folder}/{n}">part {n}</a> of this report, together with what came of it.</p>'
        for n in range(first, first + LINKS)
    )
    rows = "".join(
        f"<p>On day {n} it was measured again, as on the days before it, and came to {n * 17 % 101}.</p>"
        for n in range(ROWS)
    )
    return (
        f"<html><head><title>{path}</title></head><body><nav>Menu</nav><main><h1>Part {number}</h1>"
        f"{links}{rows}</main></body></html>"
    ).encode()


async def answer(stream: trio.SocketStream) -> None:
    """One request, one answer, and the connection ends."""
    connection = h11.Connection(h11.SERVER)
    with trio.move_on_after(30):
        try:
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await stream.receive_some(16384))
                elif isinstance(event, h11.Request):
                    break
                else:
                    return
            await trio.sleep(TAKES_S)
            body = page(event.target.decode())
            headers = [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body)))]
            sent = connection.send(h11.Response(status_code=HTTPStatus.OK, headers=headers)) or b""
            await stream.send_all(sent + body)
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            pass  # who asked has left
    await stream.aclose()


async def main(hosts: int) -> None:
    """Listen at 127.0.0.1, 127.0.0.2 and so on, all at the same port, until killed."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=512)
    port = listeners[0].socket.getsockname()[1]
    for host in range(2, hosts + 1):
        listeners += await trio.open_tcp_listeners(port, host=f"127.0.0.{host}", backlog=512)
    print(port, flush=True)
    await trio.serve_listeners(answer, listeners)


if __name__ == "__main__":
    trio.run(partial(main, int(sys.argv[1])))
