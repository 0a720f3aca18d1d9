"""CRC-32C (Castagnoli), as Kafka stores it in a record batch (contract E.1).

Set the environment variable ``FASTPROD_CRC32C`` to one of `backends` before the first import to
force that path; empty or unset takes the fastest. Another value makes the import raise ValueError.
"""

from typing_extensions import Buffer

def checksum(data: Buffer) -> int:
    """Return the CRC-32C of a buffer.

    Args:
        data: any C-contiguous buffer, 0 bytes or more; not copied.

    Returns:
        The finished CRC (final XOR applied), 0..2**32-1; 0 for no bytes.

    Raises:
        TypeError: `data` has no buffer.
        BufferError: `data` is not contiguous.

    Blocks: no; about 30 us per MB with the fastest path, 400 us with the table.
    Threads: any; the GIL is released from 32 KiB on.
    Source: RFC 3720 appendix B.4; KIP-98 (record batch format).
    """

def backend() -> str:
    """Return the name of the path that every CRC of this process takes.

    Returns:
        One of `backends`.

    Blocks: no.
    Threads: any.
    """

def backends() -> tuple[str, ...]:
    """Return the paths this machine can run, fastest first.

    Returns:
        Some of ``sse4.2+pclmul``, ``sse4.2`` (x86-64), ``armv8+pmull``, ``armv8`` (64-bit ARM),
        and always ``table``.

    Blocks: no.
    Threads: any.
    """

def update_for_test(path: str, crc: int, data: Buffer, rounds: int = 1) -> int:
    """Feed `data` to one path `rounds` times, starting from the finished `crc`; for tests."""

def combine_for_test(path: str, crc_a: int, crc_b: int, len_b: int) -> int:
    """Combine two finished CRCs with one path's multiplication; for tests."""

def contract_for_test(crc_a: int, data: Buffer, crc_b: int, len_b: int) -> tuple[int, int]:
    """Return what crc32c_update and crc32c_combine, the C contract, give; for tests."""
