"""Any settings come back from the properties file that they were written into."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastprod.settings.properties_file import decode_properties, parse_properties, properties_text

# Also halves of pairs, which a name of a file may have.
TEXTS = st.text(st.characters(codec=None)) | st.text(st.sampled_from("\\u0a =:#!\t\n\r\f\u00a0e4"))


@given(st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_settings_come_back(settings: dict[str, str]) -> None:
    text = properties_text(settings)
    assert text.isascii()
    assert decode_properties(text.encode("iso-8859-1")) == text
    # Two halves, one behind the other, are one character, as they are in Java.
    whole = {_joined(name): _joined(value) for name, value in settings.items()}
    assert parse_properties(text) == whole


@given(TEXTS)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_properties(text)
    except ValueError:
        return
    assert parse_properties(properties_text(found)) == found


def _joined(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
