"""fork_watch: what is to be done in the child of a fork, also of one that Python was not told of.

A server in C that embeds Python, such as uWSGI, forks by itself and runs none of the functions of
`os.register_at_fork`. What the parent's threads would have done is waited for in vain in its child,
and what is sent there by the parent's connection takes the place of the parent's records. If one of
these threads has the GIL at the fork, or wants it, the child does not even come to a call of ours:
so Python is told of forks that come from no Python code, as `os.fork` tells it.
"""

# Whether this is the child of a fork for which the functions have not run.
cdef bint is_fork_unknown() noexcept nogil

# Run them, if that is so.
cdef int catch_up_with_fork() except -1

# What is run, in the order of these calls; see fork_watch.pyx.
cpdef run_in_child(function)
