"""Real mail servers for the tests of this folder: started once, with empty mailboxes for each test."""

from collections.abc import Iterator

import pytest

from tests.mail_servers import USERS, MailServers, missing


@pytest.fixture(scope="session")
def running_servers() -> Iterator[MailServers]:
    if why := missing():
        pytest.skip(why)
    running = MailServers()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def servers(running_servers: MailServers) -> MailServers:
    for user in USERS:
        for path in running_servers.stored(user):
            path.unlink()
    return running_servers
