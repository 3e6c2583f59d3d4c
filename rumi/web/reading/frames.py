"""What passes between the fetcher's process and a reader's, in frames.

A request is two of them, JSON and the body; an answer is one, JSON. A reader begins with an empty frame when
it is ready. Nothing but JSON comes back: what a reader says is not trusted more than the page it has read.
"""

MOST_ANSWER_BYTES = 32_000_000
