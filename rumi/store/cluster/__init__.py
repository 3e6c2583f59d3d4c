"""Several workers that share one PostgreSQL database: leases, partitions, handover and notifications."""
