"""What Python sees of `topic_column`: nothing but the class; see topic_column.pxd."""

class TopicColumn:
    """The topic of each row, each distinct name once. Native only."""

    def __init__(self) -> None: ...
