"""Which column of a row becomes which part of a record, and rows that cannot become one."""
