"""From accepted sockets to requests, and from answers back to sockets."""
