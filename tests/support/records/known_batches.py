"""The record batches that contract P-E.8 to P-E.11 gives byte by byte."""

from __future__ import annotations

# P-E.8: null key, header with null value, empty key and value, negative timestamp delta.
RECORDS_A = [
    (1700000000000, b"key-1", b"value-1", ()),
    (1700000000001, None, b"v2", (("h1", b"x"), ("h2", None))),
    (1699999999995, b"", b"", ()),
]
VECTOR_A = bytes.fromhex("""
    00 00 00 00 00 00 00 00 00 00 00 5d ff ff ff ff
    02 3e e1 94 65 00 00 00 00 00 02 00 00 01 8b cf
    e5 68 00 00 00 01 8b cf e5 68 01 ff ff ff ff ff
    ff ff ff ff ff ff ff ff ff 00 00 00 03 24 00 00
    00 0a 6b 65 79 2d 31 0e 76 61 6c 75 65 2d 31 00
    22 00 02 02 01 04 76 32 04 04 68 31 02 78 04 68
    32 01 0c 00 09 04 00 00 00
""")

# P-E.9: transactional, producer id 4000, epoch 7, base sequence 2**31 - 1.
RECORDS_B = [
    (1700000000000, b"k0", b"v0", ()),
    (1700000000100, b"k1", None, (("trace", b"\x00\x01"),)),
]
VECTOR_B = bytes.fromhex("""
    00 00 00 00 00 00 00 00 00 00 00 4f ff ff ff ff
    02 84 8b 9d 84 00 10 00 00 00 01 00 00 01 8b cf
    e5 68 00 00 00 01 8b cf e5 68 64 00 00 00 00 00
    00 0f a0 00 07 7f ff ff ff 00 00 00 02 14 00 00
    00 04 6b 30 04 76 30 00 24 00 c8 01 02 04 6b 31
    01 02 0a 74 72 61 63 65 04 00 01
""")

# P-E.10: the records of A, lz4.
VECTOR_C = bytes.fromhex("""
    00 00 00 00 00 00 00 00 00 00 00 6c ff ff ff ff
    02 ee 89 ad 24 00 03 00 00 00 02 00 00 01 8b cf
    e5 68 00 00 00 01 8b cf e5 68 01 ff ff ff ff ff
    ff ff ff ff ff ff ff ff ff 00 00 00 03 04 22 4d
    18 60 40 82 2c 00 00 80 24 00 00 00 0a 6b 65 79
    2d 31 0e 76 61 6c 75 65 2d 31 00 22 00 02 02 01
    04 76 32 04 04 68 31 02 78 04 68 32 01 0c 00 09
    04 00 00 00 00 00 00 00
""")

# P-E.11: commit marker of producer id 4000, epoch 7, coordinator epoch 9.
RECORDS_D = [(1700000000000, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x09", ())]
VECTOR_D = bytes.fromhex("""
    00 00 00 00 00 00 00 00 00 00 00 42 ff ff ff ff
    02 8c 2d 70 38 00 30 00 00 00 00 00 00 01 8b cf
    e5 68 00 00 00 01 8b cf e5 68 00 00 00 00 00 00
    00 0f a0 00 07 ff ff ff ff 00 00 00 01 20 00 00
    00 08 00 00 00 01 0c 00 00 00 00 00 09 00
""")
