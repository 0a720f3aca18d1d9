"""Kafka's murmur2 (contract P-C.4)."""

from typing_extensions import Buffer

def hash_key(key: Buffer) -> int:
    """Return the hash that Kafka's default partitioner takes of a serialized key.

    The partition of a key is ``(hash_key(key) & 0x7fffffff) % partition_count``, counting all
    partitions of the topic. An empty key is a key and hashes; a missing key has no hash.

    Args:
        key: any C-contiguous buffer, 0 bytes or more; not copied.

    Returns:
        The hash as Java reads it, -2**31..2**31-1.

    Raises:
        TypeError: `key` has no buffer (a str must be encoded first).
        BufferError: `key` is not contiguous.

    Blocks: no; about 0.2 ns a byte.
    Threads: any.
    Source: org.apache.kafka.common.utils.Utils.murmur2; contract P-C.4.
    """
