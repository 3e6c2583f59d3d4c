"""Several workers that share one PostgreSQL database: leases, partitions, handover and notifications.

A worker is one Rumi process. All chats are divided into partitions, and one worker at a time serves a
partition. A lease is the period in which a worker may serve its partitions; the worker renews it regularly.
"""
