"""What the client knows of the cluster: topics, leaders, addresses, and when to ask again."""
