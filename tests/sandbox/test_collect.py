from hypothesis import given
from hypothesis import strategies as st

from rumi.sandbox.docker.frames import Demultiplexer
from rumi.sandbox.engine import HeadTail


@given(pieces=st.lists(st.binary(max_size=40), max_size=40), limit=st.integers(2, 60))
def test_head_and_tail_are_what_a_whole_copy_would_give(pieces: list[bytes], limit: int) -> None:
    collector = HeadTail(limit)
    for piece in pieces:
        collector.add(piece)
    whole, half, out = b"".join(pieces), limit // 2, collector.output()
    assert out.total_bytes == len(whole)
    assert out.head == whole[:half]
    assert out.tail == whole[half:][-half:]
    assert out.truncated == (len(whole) > 2 * half)


@given(
    frames=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=20),
    cuts=st.integers(1, 30),
)
def test_frames_are_taken_apart_however_they_are_cut(frames: list[tuple[int, bytes]], cuts: int) -> None:
    wire = b"".join(bytes([kind, 0, 0, 0]) + len(load).to_bytes(4, "big") + load for kind, load in frames)
    out, err = bytearray(), bytearray()
    streams = Demultiplexer(out.extend, err.extend)
    for start in range(0, len(wire), cuts):
        streams.feed(wire[start : start + cuts])
    streams.finish(started=True)
    assert bytes(out) == b"".join(load for kind, load in frames if kind == 1)
    assert bytes(err) == b"".join(load for kind, load in frames if kind == 2)


def test_the_daemons_words_are_no_output_unless_a_program_said_them() -> None:
    words = b"OCI runtime exec failed: no such thing"
    frame = b"\1\0\0\0" + len(words).to_bytes(4, "big") + words
    for started in (True, False):
        out = bytearray()
        streams = Demultiplexer(out.extend, out.extend)
        streams.feed(frame)
        said = streams.finish(started)
        assert (said, bytes(out)) == (("", words) if started else (words.decode(), b""))
