"""Moves Arrow's structs out of their capsules and makes columns of the arrays."""
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc
from libc.string cimport memset

from fastprod._core.columns.arrow_schema cimport ArrowArray, ArrowArrayStream, ArrowSchema
from fastprod._core.columns.arrow_types cimport (
    NumberType, accepted, bytes_kind, list_kind, number_type, type_text,
)
from fastprod._core.columns.column cimport (
    CELL_FIXED, CELL_INDEXED, CELL_NONE, CELL_SIGNED, CELL_VIEWS, CellKind, CellView,
    Column, cell_is_valid,
)
from fastprod._core.columns.python_columns cimport (
    KIND_BYTES, KIND_HEADERS, KIND_NUMBERS, KIND_TIMES,
)

cdef enum:
    MOST_ROWS = 0x7FFFFFFF
    DEEPEST = 64        # levels of a type


cdef class SchemaOwner:
    """Releases an ArrowSchema."""

    def __dealloc__(self):
        if self.schema.release != NULL:
            self.schema.release(&self.schema)


cdef class ArrayOwner:
    """Releases an ArrowArray."""

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)


cdef class StreamOwner:
    """Releases an ArrowArrayStream."""

    def __dealloc__(self):
        if self.stream.release != NULL:
            self.stream.release(&self.stream)


cdef SchemaOwner _move_schema(object capsule):
    cdef SchemaOwner owner = SchemaOwner.__new__(SchemaOwner)
    cdef ArrowSchema* given = <ArrowSchema*>PyCapsule_GetPointer(capsule, b"arrow_schema")
    if given.release == NULL:
        raise ValueError("the Arrow schema was released, or taken by somebody else, already")
    owner.schema = given[0]
    given.release = NULL
    return owner


cdef ArrayOwner _move_array(object capsule):
    cdef ArrayOwner owner = ArrayOwner.__new__(ArrayOwner)
    cdef ArrowArray* given = <ArrowArray*>PyCapsule_GetPointer(capsule, b"arrow_array")
    if given.release == NULL:
        raise ValueError("the Arrow array was released, or taken by somebody else, already")
    owner.array = given[0]
    given.release = NULL
    return owner


cdef StreamOwner _move_stream(object capsule):
    cdef StreamOwner owner = StreamOwner.__new__(StreamOwner)
    cdef ArrowArrayStream* given = <ArrowArrayStream*>PyCapsule_GetPointer(
        capsule, b"arrow_array_stream")
    if given.release == NULL:
        raise ValueError("the Arrow stream was released, or taken by somebody else, already")
    owner.stream = given[0]
    given.release = NULL
    return owner


cdef int _check_schema(ArrowSchema* schema, str name, int depth) except -1:
    """So that nobody meets a missing part later."""
    cdef int64_t i
    if schema == NULL or schema.format == NULL or depth > DEEPEST or (
            schema.n_children != 0 and (schema.n_children < 0 or schema.children == NULL)):
        raise ValueError(
            f"the Arrow type of {name!r} is damaged (a part is missing), or nested more than "
            f"{DEEPEST} levels deep")
    for i in range(schema.n_children):
        _check_schema(schema.children[i], name, depth + 1)
    if schema.dictionary != NULL:
        _check_schema(schema.dictionary, name, depth + 1)
    return 0


cdef ArrowData open_arrow(object source, str name):
    """What `source` exports; a stream is read to its end, without the GIL."""
    cdef ArrowData data = ArrowData.__new__(ArrowData)
    data.name = name
    data.arrays = []
    if hasattr(source, "__arrow_c_array__"):
        capsules = source.__arrow_c_array__()
        if type(capsules) is not tuple or len(capsules) != 2:
            raise TypeError(
                f"{type(source).__name__}.__arrow_c_array__() must return two capsules, not "
                f"{type(capsules).__name__}")
        data.schema = _move_schema(capsules[0])
        data.arrays.append(_move_array(capsules[1]))
    else:
        _read_stream(data, _move_stream(source.__arrow_c_stream__()))
    _check_schema(&data.schema.schema, name, 0)
    return data


cdef int _read_stream(ArrowData data, StreamOwner owner) except -1:
    cdef ArrayOwner part
    cdef int code
    data.schema = SchemaOwner.__new__(SchemaOwner)
    with nogil:
        code = owner.stream.get_schema(&owner.stream, &data.schema.schema)
    if code != 0:
        memset(&data.schema.schema, 0, sizeof(ArrowSchema))
        _raise_stream(owner, data.name, code)
    while True:
        part = ArrayOwner.__new__(ArrayOwner)
        with nogil:
            code = owner.stream.get_next(&owner.stream, &part.array)
        if code != 0:
            memset(&part.array, 0, sizeof(ArrowArray))
            _raise_stream(owner, data.name, code)
        if part.array.release == NULL:
            return 0
        data.arrays.append(part)


cdef int _raise_stream(StreamOwner owner, str name, int code) except -1:
    cdef const char* text = owner.stream.get_last_error(&owner.stream)
    said = text.decode("utf-8", "replace") if text != NULL else "it does not say why"
    raise OSError(code, f"the Arrow stream of {name!r} cannot be read: {said}")


cdef class ArrowData:
    """What an object exports."""

    cdef bint is_struct(self):
        return self.schema.schema.format == b"+s"

    cdef list field_names(self):
        cdef int64_t i
        cdef ArrowSchema* schema = &self.schema.schema
        names = []
        for i in range(schema.n_children):
            names.append(
                schema.children[i].name.decode("utf-8", "replace")
                if schema.children[i].name != NULL else "")
        return names

    cdef Column column(self, str name, ColumnKind kind, int64_t child):
        cdef ArrowSchema* schema = &self.schema.schema
        cdef ArrowArray* array
        cdef ArrayOwner owner
        cdef Column column
        if child >= 0:
            schema = schema.children[child]
        column = Column.__new__(Column, name, type_text(schema))
        column.owners.append(self)
        for owner in self.arrays:
            array = &owner.array
            _check_array(column, array, 0)
            if child < 0:
                _import(column, column.add_view(), schema, array, kind, 0, array.length)
                continue
            _check_struct(column, &self.schema.schema, array)
            _import(column, column.add_view(), schema, array.children[child], kind, array.offset,
                    array.length)
        if not self.arrays:     # a stream of nothing: still its type counts
            _check_type(column, schema, kind)
            column.add_view().kind = CELL_NONE
        column.check()
        if kind == KIND_NUMBERS or kind == KIND_TIMES:
            _set_unit(column, schema)
        return column


cdef int _set_unit(Column column, ArrowSchema* schema) except -1:
    cdef NumberType found
    if schema.format != b"n":
        number_type(schema, True, &found)
        column.multiply, column.divide = found.multiply, found.divide
    return 0


cdef int _damaged(Column column, str what) except -1:
    raise ValueError(
        f"column {column.name!r} of type {column.type_name} is damaged: {what}: whoever made the "
        f"array made it wrong")


cdef int _check_array(Column column, ArrowArray* array, int64_t n_buffers) except -1:
    """What is true of every array; it may have more buffers."""
    if array == NULL or array.release == NULL:
        _damaged(column, "an array is missing, or released")
    if array.length < 0 or array.offset < 0 or array.length > MOST_ROWS or (
            array.offset > 0x7FFFFFFFFFFFFFFF // 32):
        _damaged(column, f"{array.length:,} rows from {array.offset:,} on; a bulk has up to "
                         f"{MOST_ROWS:,}")
    if array.n_buffers < n_buffers or (array.n_buffers > 0 and array.buffers == NULL):
        _damaged(column, f"{array.n_buffers} buffers instead of {n_buffers}")
    return 0


cdef int _import_struct(
    Column column, CellView* view, ArrowSchema* schema, ArrowArray* array
) except -1:
    """Which rows of a struct are null; its fields are imported by themselves."""
    _check_array(column, array, 0)
    if array.n_children != schema.n_children or array.children == NULL:
        _damaged(column, f"{array.n_children} children instead of {schema.n_children}")
    view.kind = CELL_NONE
    view.length = array.length
    view.offset = array.offset
    view.validity = NULL
    if array.n_buffers > 0 and array.null_count != 0:
        view.validity = <const uint8_t*>array.buffers[0]
    return 0


cdef int _check_struct(Column column, ArrowSchema* schema, ArrowArray* array) except -1:
    """No row of the columns is null as a whole."""
    cdef CellView whole
    cdef int64_t row
    _import_struct(column, &whole, schema, array)
    for row in range(whole.length if whole.validity != NULL else 0):
        if not cell_is_valid(&whole, row):
            raise ValueError(
                f"row {row:,} of the columns is null as a whole: filter such rows out")
    return 0


cdef int _check_type(Column column, ArrowSchema* schema, ColumnKind kind) except -1:
    """TypeError unless the column can be of this type."""
    cdef CellKind cells
    cdef NumberType number
    if schema.format == b"n":
        return 0
    if kind == KIND_HEADERS:
        if list_kind(schema, &cells):
            _check_type(column, schema.children[0].children[0], KIND_BYTES)
            return _check_type(column, schema.children[0].children[1], KIND_BYTES)
    elif kind == KIND_BYTES:
        if schema.dictionary != NULL:
            if number_type(schema, False, &number) and schema.dictionary.dictionary == NULL and (
                    schema.dictionary.format == b"n" or bytes_kind(schema.dictionary, &cells) >= 0):
                return 0
        elif bytes_kind(schema, &cells) >= 0:
            return 0
    elif schema.dictionary == NULL and number_type(schema, kind == KIND_TIMES, &number):
        return 0
    raise TypeError(
        f"column {column.name!r} is Arrow {column.type_name}; it takes {accepted(kind)}")


cdef int _import(
    Column column, CellView* view, ArrowSchema* schema, ArrowArray* array, ColumnKind kind,
    int64_t skip, int64_t length
) except -1:
    """`length` rows of `array` from `skip` on, as `view`."""
    _check_type(column, schema, kind)
    _check_array(column, array, 0)
    if array.length < skip + length:
        _damaged(column, f"a child has {array.length:,} rows, its parent needs {skip + length:,}")
    view.length = length
    view.offset = array.offset + skip
    view.kind = CELL_NONE
    if schema.format == b"n":
        return 0
    _check_array(column, array, 1)
    if array.null_count != 0:
        view.validity = <const uint8_t*>array.buffers[0]
    if kind == KIND_HEADERS:
        return _import_lists(column, view, schema, array)
    if schema.dictionary != NULL:
        return _import_indexes(column, view, schema, array)
    if kind == KIND_BYTES:
        return _import_bytes(column, view, schema, array)
    return _import_numbers(column, view, schema, array)


cdef int _import_bytes(
    Column column, CellView* view, ArrowSchema* schema, ArrowArray* array
) except -1:
    cdef int64_t i
    cdef int32_t width = bytes_kind(schema, &view.kind)
    if view.kind == CELL_FIXED:
        _check_array(column, array, 2)
        view.width = width
        view.stride = width
        view.data = <const uint8_t*>array.buffers[1]
        if view.data == NULL and view.length > 0 and width > 0:
            _damaged(column, "it has no data")
        return 0
    _check_array(column, array, 3)
    if view.kind == CELL_VIEWS:
        view.data = <const uint8_t*>array.buffers[1]
        view.buffers = <const uint8_t* const*>(array.buffers + 2)
        view.buffer_count = array.n_buffers - 3
        view.buffer_sizes = <const int64_t*>array.buffers[array.n_buffers - 1]
        if (view.data == NULL and view.length > 0) or (
                view.buffer_sizes == NULL and view.buffer_count > 0):
            _damaged(column, "it has no views, or no sizes of its buffers")
        for i in range(view.buffer_count):
            if view.buffers[i] == NULL and view.buffer_sizes[i] > 0:
                _damaged(column, f"data buffer {i} is missing")
        return 0
    view.offsets = <const uint8_t*>array.buffers[1]
    view.data = <const uint8_t*>array.buffers[2]
    if view.offsets == NULL and view.length > 0:
        _damaged(column, "it has no offsets")
    return 0


cdef int _import_numbers(
    Column column, CellView* view, ArrowSchema* schema, ArrowArray* array
) except -1:
    cdef NumberType found
    number_type(schema, True, &found)
    _check_array(column, array, 2)
    view.kind = found.kind
    view.width = found.width
    view.stride = found.width
    view.data = <const uint8_t*>array.buffers[1]
    if view.data == NULL and view.length > 0:
        _damaged(column, "it has no data")
    return 0


cdef int _import_indexes(
    Column column, CellView* view, ArrowSchema* schema, ArrowArray* array
) except -1:
    _import_numbers(column, view, schema, array)
    view.is_signed = view.kind == CELL_SIGNED
    view.kind = CELL_NONE       # until `inner` is there
    if array.dictionary == NULL:
        _damaged(column, "its dictionary is missing")
    view.inner = <CellView*>calloc(1, sizeof(CellView))
    if view.inner == NULL:
        raise MemoryError(f"no memory for the dictionary of column {column.name!r}")
    _import(column, view.inner, schema.dictionary, array.dictionary, KIND_BYTES, 0,
            array.dictionary.length)
    view.kind = CELL_INDEXED
    return 0


cdef int _import_lists(
    Column column, CellView* view, ArrowSchema* schema, ArrowArray* array
) except -1:
    cdef ArrowArray* entries
    cdef int32_t i
    cdef CellKind kind
    list_kind(schema, &kind)
    _check_array(column, array, 2)
    view.offsets = <const uint8_t*>array.buffers[1]
    if view.offsets == NULL and view.length > 0:
        _damaged(column, "it has no offsets")
    if array.n_children != 1 or array.children == NULL:
        _damaged(column, f"{array.n_children} children instead of 1")
    entries = array.children[0]
    view.inner = <CellView*>calloc(3, sizeof(CellView))
    if view.inner == NULL:
        raise MemoryError(f"no memory for the headers of column {column.name!r}")
    view.kind = kind
    _import_struct(column, &view.inner[2], schema.children[0], entries)
    for i in range(2):
        _import(column, &view.inner[i], schema.children[0].children[i], entries.children[i],
                KIND_BYTES, entries.offset, entries.length)
    return 0
