"""JsonLayout: an Arrow array's type and buffers as a tree of C structs that rows are read from."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastprod._core.columns.arrow cimport ArrowData
from fastprod._core.columns.arrow_schema cimport ArrowArray, ArrowSchema
from fastprod._core.columns.column cimport CellView
from fastprod._core.json.times cimport TimeParts, TimePattern, ZoneTable

cdef enum JsonKind:
    JSON_NULL = 0
    JSON_BOOLEAN = 1
    JSON_INTEGER = 2
    JSON_UNSIGNED = 3
    JSON_FLOAT = 4
    JSON_DOUBLE = 5
    JSON_DECIMAL = 6
    JSON_STRING = 7
    JSON_BINARY = 8
    JSON_DATE = 9           # days
    JSON_TIME = 10          # of day
    JSON_TIMESTAMP = 11     # with a zone or, if `zone` is NULL, without one
    JSON_LIST = 12
    JSON_MAP = 13
    JSON_STRUCT = 14

cdef struct JsonNode:
    # A field, an element, a key or a value.
    # OWNER a JsonLayout.  BORROWS buffers from its ArrowData, the rest from what it holds.
    JsonKind kind
    CellView cells          # of bytes, numbers and lists; its kind only for bytes and lists
    const uint8_t* label    # of a field: ,"name":
    int64_t label_size
    JsonNode* children      # owned
    int32_t child_count
    int32_t scale           # JSON_DECIMAL
    int64_t units_per_s     # JSON_TIMESTAMP, JSON_TIME
    const TimeParts* parts  # JSON_DATE, JSON_TIMESTAMP
    const ZoneTable* zone
    int32_t zone_hint

cdef class JsonFormat:
    # How dates and times are written. Threads: any.
    cdef TimePattern date_pattern
    cdef TimePattern timestamp_pattern
    cdef TimePattern timestamp_ntz_pattern
    cdef object zone_of         # Arrow's time zone -> ZoneOffsets
    cdef bint ignores_nulls

cdef class JsonLayout:
    # One array's. Threads: one.
    cdef JsonNode root
    cdef ArrowData data
    cdef list held              # what nodes point into
    cdef list path              # names of the fields around the one that is being read

    cdef int _read(
        self, JsonNode* node, JsonFormat form, ArrowSchema* schema, ArrowArray* array,
        int64_t skip, int64_t length) except -1
    cdef int _read_children(
        self, JsonNode* node, JsonFormat form, ArrowSchema* schema, ArrowArray* array,
        int64_t skip, int64_t length) except -1

# Of array number `index` of the data.
cdef JsonLayout new_json_layout(ArrowData data, int64_t index, JsonFormat form)
