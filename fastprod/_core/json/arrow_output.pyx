"""Fills a column of bytes row by row and exports it to Arrow."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from fastprod._core.columns.arrow_schema cimport ArrowArray, ArrowSchema
from fastprod._core.json.text_buffer cimport text_free

cdef extern from "c/fp_sync.h" nogil:
    int32_t fp_add_i32(int32_t* at, int32_t number)

cdef enum:
    BUFFER_COUNT = 3
    FLAG_NULLABLE = 2       # ARROW_FLAG_NULLABLE

cdef struct Export:
    # What an exported array has of its own.  FREED BY its release.
    BinaryBlock* block
    const void* buffers[BUFFER_COUNT]


cdef void _let_go(BinaryBlock* block) noexcept nogil:
    if block == NULL or fp_add_i32(&block.reference_count, -1) > 0:
        return
    free(block.validity)
    free(block.offsets)
    text_free(&block.text)
    free(block)


cdef void _release_array(ArrowArray* array) noexcept nogil:
    cdef Export* export = <Export*>array.private_data
    _let_go(export.block)
    free(export)
    array.release = NULL


cdef void _release_schema(ArrowSchema* schema) noexcept nogil:
    schema.release = NULL       # its texts are constants


cdef void _drop_array(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*>PyCapsule_GetPointer(capsule, b"arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef void _drop_schema(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, b"arrow_schema"))


cdef BinaryColumn new_binary_column(int64_t length):
    cdef BinaryColumn column = BinaryColumn.__new__(BinaryColumn)
    cdef BinaryBlock* block = <BinaryBlock*>calloc(1, sizeof(BinaryBlock))
    if block == NULL:
        raise MemoryError(f"no memory for {length:,} rows")
    column.block = block
    block.reference_count = 1
    block.length = length
    block.validity = <uint8_t*>malloc((length + 7) // 8 + 1)
    block.offsets = <int64_t*>malloc((length + 1) * sizeof(int64_t))
    if block.validity == NULL or block.offsets == NULL:
        raise MemoryError(f"no memory for {length:,} rows")
    memset(block.validity, 0xFF, (length + 7) // 8 + 1)
    block.offsets[0] = 0
    return column


cdef class BinaryColumn:
    """Bytes of many rows."""

    def __dealloc__(self):
        _let_go(self.block)

    def __len__(self):
        return self.block.length if self.block != NULL else 0

    @property
    def nbytes(self):
        return self.block.offsets[self.block.length] if self.block != NULL else 0

    def to_pylist(self):
        cdef int64_t row
        cdef int64_t* offsets
        rows = []
        for row in range(len(self)):
            offsets = self.block.offsets + row
            if not (self.block.validity[row >> 3] >> (row & 7)) & 1:
                rows.append(None)
            else:
                rows.append(PyBytes_FromStringAndSize(
                    <const char*>self.block.text.data + offsets[0], offsets[1] - offsets[0]))
        return rows

    def __arrow_c_array__(self, requested_schema=None):
        cdef ArrowSchema* schema
        cdef ArrowArray* array
        cdef Export* export
        if self.block == NULL:
            raise ValueError("this column was not made by an encoder: it has no rows")
        schema = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
        if schema == NULL:
            raise MemoryError("no memory for an Arrow schema")
        schema.format = b"Z"
        schema.name = b""
        schema.flags = FLAG_NULLABLE
        schema.release = _release_schema
        schema_capsule = PyCapsule_New(schema, b"arrow_schema", _drop_schema)
        array = <ArrowArray*>calloc(1, sizeof(ArrowArray))
        export = <Export*>calloc(1, sizeof(Export))
        if array == NULL or export == NULL:
            free(array)
            free(export)
            raise MemoryError("no memory for an Arrow array")
        fp_add_i32(&self.block.reference_count, 1)
        export.block = self.block
        if self.block.null_count > 0:
            export.buffers[0] = self.block.validity
        export.buffers[1] = self.block.offsets
        export.buffers[2] = self.block.text.data
        array.length = self.block.length
        array.null_count = self.block.null_count
        array.n_buffers = BUFFER_COUNT
        array.buffers = export.buffers
        array.private_data = export
        array.release = _release_array
        return schema_capsule, PyCapsule_New(array, b"arrow_array", _drop_array)
