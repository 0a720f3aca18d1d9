"""What Python sees of `column_gather`; see column_gather.pxd for the native half."""

import re as re
import sys as sys
