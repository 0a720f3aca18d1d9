"""CRC-32C (Castagnoli), as Kafka stores it in a record batch (contract P-E.1).

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
