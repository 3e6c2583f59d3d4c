"""Several workers on one database: which of them serves which chats, and how chats move between them."""

from rumi.cluster.building import Cluster, cluster_of, leases_of
from rumi.cluster.directory import Directory
from rumi.cluster.files import CarriedFiles
from rumi.cluster.lease import ClusterSettings, Lease, LeaseLost
from rumi.cluster.listening import Ear, PostgresEar
from rumi.cluster.partitions import Dependents, Drain, Part, Partitions
from rumi.cluster.status import read_workers

__all__ = [
    "CarriedFiles",
    "Cluster",
    "ClusterSettings",
    "Dependents",
    "Directory",
    "Drain",
    "Ear",
    "Lease",
    "LeaseLost",
    "Part",
    "Partitions",
    "PostgresEar",
    "cluster_of",
    "leases_of",
    "read_workers",
]
