"""What one node does for clients that work together: groups."""
