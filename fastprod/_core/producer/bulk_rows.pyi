"""What Python sees of `bulk_rows`; see bulk_rows.pxd for the native half."""

from fastprod.records import OffsetRange as OffsetRange
