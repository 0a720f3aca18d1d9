"""What Python sees of `byte_view`; see byte_view.pxd for the native half."""

from fastprod.records import in_range as in_range
