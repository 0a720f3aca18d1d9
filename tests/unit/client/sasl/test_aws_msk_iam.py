"""AwsMskIamTokens: the signer is asked as the settings say."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from fastprod.client.sasl.aws_msk_iam import AwsMskIamTokens
from fastprod.client.sasl.login_error import LoginError
from fastprod.security.sasl_settings import AwsSettings


class Signer:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def make(*args: Any, **words: Any) -> tuple[str, float]:
            self.calls.append((name, *args, *words.items()))
            return "c2lnbmVk", (time.time() + 900) * 1000

        return make


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch) -> Signer:
    made = Signer()
    module = SimpleNamespace(MSKAuthTokenProvider=made)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", module)
    return made


@pytest.mark.parametrize(
    ("settings", "call"),
    [
        (AwsSettings("eu-central-1"), ("generate_auth_token", "eu-central-1")),
        (
            AwsSettings("eu-central-1", profile="dev"),
            ("generate_auth_token_from_profile", "eu-central-1", "dev"),
        ),
        (
            AwsSettings("eu-central-1", role_arn="arn:x", external_id="7"),
            (
                "generate_auth_token_from_role_arn",
                *("eu-central-1", "arn:x"),
                *(("sts_session_name", "fastprod"), ("external_id", "7")),
            ),
        ),
    ],
)
def test_the_signer_is_asked(signer: Signer, settings: AwsSettings, call: tuple[Any, ...]) -> None:
    token = AwsMskIamTokens(settings).fetch()
    assert signer.calls == [call]
    assert token.value.reveal() == "c2lnbmVk"
    assert token.expires_s == pytest.approx(time.time() + 900, abs=60)


def test_missing_credentials_are_told(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(region: str) -> tuple[str, int]:
        raise LookupError("no credentials")

    monkeypatch.setattr(signer, "generate_auth_token", refuse, raising=False)
    with pytest.raises(LoginError, match="'eu-central-1': LookupError: check the region") as caught:
        AwsMskIamTokens(AwsSettings("eu-central-1")).fetch()
    assert isinstance(caught.value.__cause__, LookupError)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(LoginError, match=r"pip install 'fastprod\[msk\]'"):
        AwsMskIamTokens(AwsSettings("eu-central-1"))
