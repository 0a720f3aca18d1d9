"""How a client says who it is: mechanisms, logins, and the exchange on each connection."""
