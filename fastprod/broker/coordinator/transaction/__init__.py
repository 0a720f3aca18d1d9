"""Transactions: ids, states, markers, time-outs (B-E4)."""
