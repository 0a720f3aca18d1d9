"""What the nodes of a cluster share: topics, partitions, leaders, ids."""
