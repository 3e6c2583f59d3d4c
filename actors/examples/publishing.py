"""Publishing never waits: a reader that is too slow loses its oldest events, and knows how many.

Prints:
    fast: 0 1 2 3 4
    slow: 3 4, and lost 3
"""

import trio

from actors import Backlog, Topic


async def main() -> None:
    """One reader takes each event as it comes, another takes none until the end."""
    topic: Topic[str, int] = Topic(Backlog(most=2))
    with topic.listening("numbers") as fast, topic.listening() as slow:
        taken = []
        for number in range(5):
            topic.publish("numbers", number)
            taken.append(await fast.receive())
        print("fast:", *taken)
        print("slow:", *[await slow.receive() for _ in range(slow.behind)], end="")
        print(f", and lost {slow.lost}")


if __name__ == "__main__":
    trio.run(main)
