"""Columns of many records, read where Arrow, numpy or Python keeps them."""
