"""fastprod.config_values: kinds, ranges, and what each refusal says."""

from __future__ import annotations

import collections
import pickle
from typing import Any

import pytest

from fastprod.config_values import BootstrapAddress, Setting
from fastprod.errors import ConfigError

INT8 = Setting("integer", "a small number", 3, low=1, high=9, also=(-1,))
ADDRESSES = Setting("addresses", "brokers")


class Index:
    def __index__(self) -> int:
        return 4


def refused(setting: Setting, value: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        setting.parse("the.key", value)
    error = caught.value
    assert str(error).startswith("the.key = ")
    assert error.key == "the.key"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    return error


@pytest.mark.parametrize(
    ("value", "expected"), [(5, 5), (" 5 ", 5), ("+5", 5), ("-1", -1), (9, 9), (1, 1), (Index(), 4)]
)
def test_integers_are_parsed_from_numbers_and_trimmed_strings(value: Any, expected: int) -> None:
    assert INT8.parse("k", value) == expected


@pytest.mark.parametrize(
    "value", [0, 10, "10", -2, 5.0, "5.0", "", "five", True, None, "1_0", "\u0665", "9" * 5000, [1]]
)
def test_integers_out_of_range_or_of_another_type_are_refused(value: Any) -> None:
    error = refused(INT8, value)
    assert str(error).endswith("must be an integer -1 or 1..9")
    assert len(str(error)) < 120


def test_a_refusal_of_an_object_that_does_not_pickle_still_does() -> None:
    error = refused(INT8, lambda: 5)
    assert vars(error)["value"].startswith("<function")


def test_a_range_without_an_upper_end_says_so() -> None:
    assert Setting("integer", "doc", low=5_000).range_text == ">= 5000"
    assert Setting("integer", "doc", low=0, high=262_144).range_text == "0..262,144"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), (False, False), ("true", True), (" FALSE ", False), ("True", True)],
)
def test_booleans_are_parsed_from_bools_and_words(value: Any, expected: bool) -> None:
    assert Setting("boolean", "doc").parse("k", value) is expected


@pytest.mark.parametrize("value", [1, 0, "yes", "", None, "1"])
def test_other_booleans_are_refused(value: Any) -> None:
    assert str(refused(Setting("boolean", "doc"), value)).endswith("must be true or false")


@pytest.mark.parametrize(
    ("value", "expected"), [("all", -1), ("-1", -1), (-1, -1), (" 1 ", 1), (0, 0), ("0", 0)]
)
def test_acks_are_parsed_from_words_and_numbers(value: Any, expected: int) -> None:
    assert Setting("acks", "doc").parse("acks", value) == expected


@pytest.mark.parametrize("value", [2, "ALL", "2", None, True, 1.0, -2])
def test_other_acks_are_refused(value: Any) -> None:
    assert str(refused(Setting("acks", "doc"), value)).endswith("must be all, -1, 0 or 1")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("adaptive", None),
        (" Adaptive ", None),
        (0, 0),
        ("10", 10),
        (2**40, 2**31 - 1),
    ],
)
def test_linger_is_adaptive_or_a_number(value: Any, expected: int | None) -> None:
    assert Setting("linger", "doc").parse("linger_ms", value) == expected


@pytest.mark.parametrize("value", [-1, 5.5, "auto", 2**63, True])
def test_other_lingers_are_refused(value: Any) -> None:
    error = refused(Setting("linger", "doc"), value)
    assert str(error).endswith("must be 'adaptive' or an integer >= 0")


def test_choices_are_exact_unless_any_case_is_allowed() -> None:
    """P-L.34."""
    exact = Setting("choice", "doc", choices=("none", "lz4"))
    assert exact.parse("k", " lz4 ") == "lz4"
    assert str(refused(exact, "LZ4")) == "the.key = 'LZ4': must be one of none, lz4"
    refused(exact, None)
    any_case = Setting("any case", "doc", choices=("none", "rebootstrap"))
    assert any_case.parse("k", "NONE") == "none"
    refused(any_case, "abc")


def test_strings_are_trimmed_and_fit_kafkas_int16_length() -> None:
    setting = Setting("string", "doc")
    assert setting.parse("k", " a b ") == "a b"
    assert setting.parse("k", None) == ""
    assert setting.parse("k", "a" * 32_767)
    assert "takes 32,768 bytes; Kafka allows 32,767" in str(refused(setting, "\u00e9" * 16_384))
    assert "UTF-8" in str(refused(setting, "\ud800"))
    assert str(refused(setting, 5)).endswith("must be a str")


def test_encodings_are_looked_up() -> None:
    setting = Setting("encoding", "doc")
    assert setting.parse("k", "UTF8") == "utf-8"
    assert setting.parse("k", None) is None
    refused(setting, "no-such-encoding")
    refused(setting, "hex")
    refused(setting, 5)


@pytest.mark.parametrize("path", ["collections:OrderedDict", "collections.OrderedDict"])
def test_an_object_is_found_by_its_import_path(path: str) -> None:
    assert Setting("object", "doc").parse("k", path) is collections.OrderedDict


def test_an_object_that_is_no_path_is_taken_as_it_is() -> None:
    thing = object()
    assert Setting("object", "doc").parse("k", thing) is thing
    assert Setting("object", "doc").parse("k", None) is None
    assert Setting("object", "doc").parse("k", "collections:OrderedDict.fromkeys") is not None


@pytest.mark.parametrize(
    "path", ["no_such_module:A", "collections:NoSuchClass", "collections.NoSuchClass"]
)
def test_an_import_path_that_leads_nowhere_is_refused(path: str) -> None:
    error = refused(Setting("object", "doc"), path)
    assert "cannot be imported" in str(error)
    assert isinstance(error.__cause__, ImportError | AttributeError)


@pytest.mark.parametrize("path", ["", "word", ":A", "collections:", "."])
def test_a_word_that_is_no_import_path_is_refused(path: str) -> None:
    assert "import path 'module:Class'" in str(refused(Setting("object", "doc"), path))


def test_objects_are_a_list_or_comma_separated_paths() -> None:
    setting = Setting("objects", "doc")
    both = (collections.OrderedDict, collections.Counter)
    assert setting.parse("k", "collections:OrderedDict, collections:Counter") == both
    assert setting.parse("k", ["collections:OrderedDict", collections.Counter]) == both
    assert setting.parse("k", "") == ()
    assert setting.parse("k", []) == ()
    refused(setting, "collections:OrderedDict,,collections:Counter")
    refused(setting, 5)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("kafka1:9092", [("kafka1", 9092)]),
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a:1 , ,b:2,, ", [("a", 1), ("b", 2)]),
        (["a:1", " b:2 ", ""], [("a", 1), ("b", 2)]),
        (("a:1,b:2", "c:3"), [("a", 1), ("b", 2), ("c", 3)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("[fe80::1%lo]:1", [("fe80::1%lo", 1)]),
        ("127.0.0.1:65535", [("127.0.0.1", 65535)]),
        ("my_host-1.example.:1", [("my_host-1.example.", 1)]),
        ("b:2,a:1,b:2", [("b", 2), ("a", 1)]),
    ],
)
def test_bootstrap_addresses_are_host_and_port(value: Any, expected: list[tuple[str, int]]) -> None:
    """P-A.1.4."""
    assert list(ADDRESSES.parse("bootstrap_servers", value)) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", "names no broker"),
        (" , ", "names no broker"),
        ([], "names no broker"),
        ("h", "must be host:port"),
        (":9092", "must be host:port"),
        ("h:", "port must be 1..65535"),
        ("h:0", "port must be 1..65535"),
        ("h:65536", "port must be 1..65535"),
        ("h:-1", "port must be 1..65535"),
        ("h:+1", "port must be 1..65535"),
        ("h:abc", "port must be 1..65535"),
        ("a:1,h:x", "port must be 1..65535"),
        ("::1:9092", "stands in brackets"),
        ("[h]:9092", "must be an IPv6 address"),
        ("SSL://h:9093", "leave out the part"),
        ("a b:1", "letters, digits"),
        ("user@h:1", "letters, digits"),
        (None, "must be a list or a comma-separated str"),
        ([5], "must be a list or a comma-separated str"),
    ],
)
def test_malformed_bootstrap_addresses_are_refused(value: Any, text: str) -> None:
    """P-A.1.4."""
    assert text in str(refused(ADDRESSES, value))


def test_topics_are_a_list_or_comma_separated() -> None:
    """P-A.1.9: each once, as a broker could be asked for it."""
    setting = Setting("topics", "doc", ())
    assert setting.parse("k", " a, b ,a,,") == setting.parse("k", ["a", "b"]) == ("a", "b")
    assert setting.parse("k", []) == setting.parse("k", "") == ()
    assert "1 to 249 characters" in str(refused(setting, ["a", "x" * 250]))
    assert "UTF-8" in str(refused(setting, "\ud800"))
    for value in (None, 5, [b"a"]):
        assert "comma-separated str of topic names" in str(refused(setting, value))


def test_an_address_prints_as_it_is_written() -> None:
    assert str(BootstrapAddress("::1", 9092)) == "[::1]:9092"
    assert str(BootstrapAddress("kafka", 9092)) == "kafka:9092"


def test_telemetry_can_only_be_off() -> None:
    setting = Setting("telemetry", "doc")
    assert setting.parse("k", "false") is False
    assert "KIP-714" in str(refused(setting, True))
    refused(setting, "yes")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", 10**5_000),
        ("decimal", 10**400),
        ("encoding", "utf-8\0"),
        ("encoding", "\udc80"),
        ("pairs", ("a:1",)),
    ],
    ids=["many digits", "no float", "a NUL", "no text", "no pairs"],
)
def test_what_python_itself_stumbles_over_is_refused_by_name(kind: str, value: Any) -> None:
    with pytest.raises(ConfigError, match="a_setting"):
        Setting(kind, "doc", low=0, high=9).parse("a_setting", value)
