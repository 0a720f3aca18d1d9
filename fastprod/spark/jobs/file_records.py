"""FileRecords: the rows of files as columns of records, by Spark's readers and SQL."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from fastprod.load.input_files import InputFile, folder_columns, reads_by_folders
from fastprod.load.load_request import LoadPlan
from fastprod.spark.jobs.checked_files import (
    check_columns,
    check_found,
    check_headers,
    check_text,
    damage_told,
    file_check,
    with_known_times,
)
from fastprod.spark.jobs.frame_engine import (
    check_by_row,
    queried,
    read_frame,
    reader_defaults,
    record_frame,
)
from fastprod.spark.jobs.orc_times import with_file_times


def file_records(
    spark: SparkSession,
    plan: LoadPlan,
    files: Sequence[InputFile],
    paths: Sequence[str],
    root: str | None,
) -> DataFrame | None:
    """The rows of files that Spark's readers lose nothing of; None: there is no line.

    Args:
        spark: the session.
        plan: what is loaded, and how.
        files: that are read; none for URLs, at which nobody looks.
        paths: for Spark's reader.
        root: the folder below which Spark makes columns of folders; None: as it does by itself.

    Raises:
        InputError: a file has what Spark would leave out or change, or a column is wrong.
        pyspark.errors.AnalysisException: SQL, or what Spark's readers find.

    Blocks: while Spark looks for columns, and its tasks look through files of text.
    """
    request = plan.request
    options = reader_defaults(plan.kind, request.reader_options, is_tabbed=plan.is_tabbed)
    with damage_told(spark, plan.kind, files, request.reader_options):
        if reads_by_folders(request.reader_options) and any(map(folder_columns, files)):
            alone = {**options, "recursiveFileLookup": "true"}
            check_columns(files, read_frame(spark, plan.kind, paths, alone).columns)
        if root is not None:
            options["basePath"] = root
        frame = read_frame(spark, plan.kind, paths, options, request.schema)
    if files:
        check_found(files, frame.inputFiles(), request.reader_options)
    if not frame.columns and frame.isEmpty():
        # Files without a line have no columns, so that none could be found.
        return None
    schema = frame.schema
    if plan.kind == "orc":
        frame = with_file_times(frame, files, has_schema=request.schema is not None)
        frame = with_known_times(frame)
    frame = queried(frame, request.sql, request.select, request.where)
    if request.job_id is not None:
        check_by_row(frame)
    mapping = request.mapping.resolved(frame.columns)
    records = record_frame(frame, mapping)
    is_raw = mapping.value_format == "raw" and not request.has_query
    used = mapping.columns if is_raw else None
    # With --job-id other files may have the column.
    needs_named = request.schema is not None and len(files) == len(plan.files)
    check_headers(
        plan.kind,
        files,
        request.reader_options,
        named=None if request.schema is None else schema.fieldNames(),
        known=schema.fieldNames(),
        needed=() if request.schema is not None or used is None else used,
        needs_named=needs_named,
    )
    check = file_check(
        plan.kind,
        files,
        request.reader_options,
        schema,
        used=used,
        has_schema=request.schema is not None,
        needs_named=needs_named,
    )
    if check is not None:
        check_text(spark, check, files)
    return records
