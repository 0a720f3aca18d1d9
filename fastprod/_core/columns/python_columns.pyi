"""What Python sees of `python_columns`; see python_columns.pxd for the native half."""

import re as re
import sys as sys
