"""The APIs about consumer groups."""
