"""Transactions, on the control thread: states, requests and their coordinators (contract P-I)."""
