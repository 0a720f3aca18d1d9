"""Copies of what an engine has counted, for metrics()."""
from fastprod._core.engine.accumulator cimport Topic
from fastprod._core.engine.sender_state cimport IoThread, Node

# Totals and gauges, by name; of an engine that is a parent process's, without its pool's.
cdef dict counters_of(IoThread* io, bint is_abandoned)
# With `reset` maxima count from here on.
cdef object node_figures(Node* node, bint reset)
cdef object topic_figures(str name, Topic* topic, bint reset)
