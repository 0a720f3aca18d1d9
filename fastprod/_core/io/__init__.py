"""Sockets: channels that move frames, and the selectors that wait for them."""
