"""Slab: a piece of memory that holds wire bytes."""
from libc.stdint cimport uint8_t, uint32_t

cdef enum SlabKind:
    SLAB_BIG = 0        # a whole block of the pool's arena
    SLAB_SMALL = 1      # a sixteenth of a block
    SLAB_HEAP = 2       # malloc'ed with its descriptor, outside the arena and its bound
    SLAB_LENT = 3       # the bytes of a Python object, which a LentValue keeps alive
    SLAB_REST = 4       # what is behind the used bytes of a slab before it in the chain

cdef struct Slab:
    # OWNER    exactly one of: a free list, a waiter's chain, a batch.
    # FREED BY pool_give. The arena itself goes with the pool.
    # THREADS  `next`/`prev` of a free slab: guarded by BufferPool.lock; else the owner alone.
    uint8_t* base           # borrowed (SLAB_HEAP: owned); `size` bytes
    uint32_t size
    uint32_t used           # bytes written, 0..size
    uint32_t block          # index of its block in the arena
    uint8_t kind            # SlabKind
    uint8_t is_out          # 1 while somebody owns it: a second pool_give is a bug, not a free
    Slab* next              # next in the chain or in the free list
    Slab* prev              # free list of small slabs only
