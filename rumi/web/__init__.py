"""The web: fetches pages and searches for a model, and connects only to addresses that the guard allows."""

from rumi.web.guard import Verdict
from rumi.web.judging import judge_list
from rumi.web.links import given_in, links_in
from rumi.web.reading.charset import load_codecs
from rumi.web.reading.cleaning import clean
from rumi.web.reading.confinement import confine
from rumi.web.reading.kinds import looks_like
from rumi.web.reading.pdf import read_pdf
from rumi.web.tree import Web, WebSettings, add_fetcher, fetch_once, guarded_streams
from rumi.web.types import (
    Fetch,
    FetchError,
    FetchRefused,
    Found,
    Method,
    Page,
    Search,
    SearchResults,
    Streamed,
    Streams,
    Topic,
    WebMessage,
)
from rumi.web.url import parse_target

__all__ = [
    "Fetch",
    "FetchError",
    "FetchRefused",
    "Found",
    "Method",
    "Page",
    "Search",
    "SearchResults",
    "Streamed",
    "Streams",
    "Topic",
    "Verdict",
    "Web",
    "WebMessage",
    "WebSettings",
    "add_fetcher",
    "clean",
    "confine",
    "fetch_once",
    "given_in",
    "guarded_streams",
    "judge_list",
    "links_in",
    "load_codecs",
    "looks_like",
    "parse_target",
    "read_pdf",
]
