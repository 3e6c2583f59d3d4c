"""The databases that commands open themselves if no daemon runs on the home."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rumi.platform.home import Home
    from rumi.store.backend import PostgresServer


@dataclass(frozen=True, slots=True)
class HomeDatabases:
    """The databases of a home: its own files, or the database that it shares with other workers."""

    state: "Path | PostgresServer"
    memory: "Path | PostgresServer"


def stored_of(home: "Home") -> HomeDatabases:
    """Return the databases that the configuration names.

    Raises:
        ConfigError: The configuration is invalid.
        UsageError: `[store] url` is not the URL of a PostgreSQL database.
    """
    from rumi.app.settings import cluster_of
    from rumi.platform.config.cascade import load_settings

    cluster = cluster_of(load_settings(home.root, os.environ, {}))
    if cluster is None:
        return HomeDatabases(home.state_db, home.memory_db)
    return HomeDatabases(cluster.backend, cluster.backend)
