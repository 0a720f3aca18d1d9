"""Imports the library of a format when the format is used."""

from __future__ import annotations

import importlib
from typing import Any

from fastprod.spark.formats.column_types import FormatError


def load(module: str, package: str, wanted_by: str) -> Any:
    """Import a module of an optional library.

    Args:
        module: its full name.
        package: what pip is to install.
        wanted_by: the option, for the message.

    Raises:
        FormatError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise FormatError(
            f"{wanted_by} needs the Python module {error.name}, which is not installed here; on "
            f"the driver and on every worker: pip install '{package}'"
        ) from error
