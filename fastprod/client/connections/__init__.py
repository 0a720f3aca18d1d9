"""The connections to brokers: where to, over what, how they are, and why they ended."""
