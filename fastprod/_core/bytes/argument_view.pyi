"""What Python sees of `argument_view`; see argument_view.pxd for the native half."""

from fastprod.records import in_range as in_range
