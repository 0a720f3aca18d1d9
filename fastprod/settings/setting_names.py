"""Names of settings that are not ours: those of other clients, and those that nothing is made of.

All are written with underscores.  Sources: SaslConfigs, SslConfigs and ProducerConfig of Apache
Kafka 4.3.0; librdkafka's CONFIGURATION.md; KafkaProducer of kafka-python 3 and of aiokafka 0.14;
contract P-B.9.
"""

from __future__ import annotations

from typing import Final

RENAMED: Final = {
    # librdkafka's
    "metadata_broker_list": "bootstrap_servers",
    "ssl_ca_location": "ssl_truststore_location",
    "ssl_ca_pem": "ssl_truststore_certificates",
    "ssl_certificate_pem": "ssl_keystore_certificate_chain",
    "ssl_key_pem": "ssl_keystore_key",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_oauthbearer_client_id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl_oauthbearer_client_secret": "sasl_oauthbearer_client_credentials_client_secret",
    "sasl_oauthbearer_extensions": "sasl_extensions",
    "oauth_cb": "sasl_oauth_token_provider",
    # kafka-python's and aiokafka's
    "ssl_cafile": "ssl_truststore_location",
    "ssl_certfile": "ssl_certificate_location",
    "ssl_keyfile": "ssl_key_location",
    "ssl_password": "ssl_key_password",
    "ssl_crlfile": "ssl_crl_location",
    "ssl_ciphers": "ssl_cipher_suites",
    "ssl_check_hostname": "ssl_endpoint_identification_algorithm",
    "sasl_plain_username": "sasl_username",
    "sasl_plain_password": "sasl_password",
    "socks5_proxy": "proxy_url",
    # Kafka's, where Java names a class and Python has an object
    "ssl_engine_factory_class": "ssl_context",
    "sasl_login_callback_handler_class": "sasl_oauth_token_provider",
    "sasl_oauthbearer_jwt_retriever_class": "sasl_oauth_token_provider",
}
"""Settings of other clients by name, with ours that means the same."""

IN_PLACE: Final = {
    # librdkafka's
    "message_timeout_ms": "delivery_timeout_ms",
    "message_send_max_retries": "retries",
    "message_max_bytes": "max_request_size",
    "request_required_acks": "acks",
    "queue_buffering_max_ms": "linger_ms",
    "queue_buffering_max_kbytes": "buffer_memory",
    "queue_buffering_max_messages": "buffer_memory",
    "batch_num_messages": "batch_size",
    "compression_codec": "compression_type",
    "compression_level": "compression_gzip_level, compression_lz4_level or compression_zstd_level",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "socket_timeout_ms": "request_timeout_ms",
    "socket_send_buffer_bytes": "send_buffer_bytes",
    "socket_receive_buffer_bytes": "receive_buffer_bytes",
    "receive_message_max_bytes": "max_receive_bytes",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
    # also kafka-python's and aiokafka's
    "partitioner": "partitioner_class",
    "max_batch_size": "batch_size",
}
"""Settings of other clients by name, with ours to give in their place: what they take differs."""

_JAVA_TLS: Final = "it chooses a part of Java's TLS"
_AT_THE_BROKER: Final = "it says how a broker checks tokens"
_CONSUMER: Final = "it is a setting of consumers"
_REGISTRY: Final = "it is for a client of the schema registry"

IGNORED: Final = {
    "security_providers": _JAVA_TLS,
    "ssl_provider": _JAVA_TLS,
    "ssl_keymanager_algorithm": _JAVA_TLS,
    "ssl_trustmanager_algorithm": _JAVA_TLS,
    "ssl_secure_random_implementation": _JAVA_TLS,
    "ssl_ca_certificate_stores": "it names certificate stores of Windows",
    "sasl_oauthbearer_scope_claim_name": _AT_THE_BROKER,
    "sasl_oauthbearer_sub_claim_name": _AT_THE_BROKER,
    "sasl_oauthbearer_clock_skew_seconds": _AT_THE_BROKER,
    "sasl_oauthbearer_expected_audience": _AT_THE_BROKER,
    "sasl_oauthbearer_expected_issuer": _AT_THE_BROKER,
    "sasl_oauthbearer_jwks_endpoint_url": _AT_THE_BROKER,
    "sasl_oauthbearer_jwks_endpoint_refresh_ms": _AT_THE_BROKER,
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_ms": _AT_THE_BROKER,
    "sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms": _AT_THE_BROKER,
    "sasl_oauthbearer_jwt_validator_class": _AT_THE_BROKER,
    "session_timeout_ms": _CONSUMER,
    "group_id": _CONSUMER,
    "auto_offset_reset": _CONSUMER,
    "enable_auto_commit": _CONSUMER,
    "basic_auth_credentials_source": _REGISTRY,
    "basic_auth_user_info": _REGISTRY,
}
"""Settings that are taken and mean nothing here, by name, with the reason for the log.

The files that Kafka's vendors hand out for all clients have some of them.
"""

_NO_TWO_PHASES: Final = (
    "two-phase commit (KIP-939) is not in this version, and Apache Kafka 4.3 cannot keep what was "
    "prepared; leave it out"
)
_LATER: Final = "it belongs to Kafka 4.4 or later, and this version does not have it; leave it out"
_JAVA: Final = "it concerns the Java virtual machine only; leave it out"
_OPENSSL: Final = "OpenSSL's own configuration says that; leave it out"
_ASSERTION: Final = (
    "an assertion is not signed here; let it be signed elsewhere, and give its file as "
    "sasl.oauthbearer.assertion.file"
)

REFUSED: Final = {
    "transaction_two_phase_commit_enable": _NO_TWO_PHASES,
    "partitioner_rack_aware": _LATER,
    "client_rack": _LATER,
    "metadata_cluster_check_enable": _LATER,
    "bootstrap_resolve_timeout_ms": _LATER,
    "auto_include_jmx_reporter": _JAVA,
    "sasl_login_class": "it names a Java class; give sasl_oauth_token_provider a Python object",
    "ssl_curves_list": _OPENSSL,
    "ssl_sigalgs_list": _OPENSSL,
    "ssl_providers": _OPENSSL,
    "ssl_engine_id": _OPENSSL,
    "ssl_engine_location": _OPENSSL,
    "ssl_certificate_verify_cb": (
        "certificates are checked by OpenSSL; give those that are trusted as "
        "ssl.truststore.certificates"
    ),
    "sasl_kerberos_name": (
        "give the name's parts as sasl_kerberos_service_name and sasl_kerberos_domain_name"
    ),
    "sasl_oauthbearer_assertion_algorithm": _ASSERTION,
    "sasl_oauthbearer_assertion_claim_aud": _ASSERTION,
    "sasl_oauthbearer_assertion_claim_exp_seconds": _ASSERTION,
    "sasl_oauthbearer_assertion_claim_iss": _ASSERTION,
    "sasl_oauthbearer_assertion_claim_jti_include": _ASSERTION,
    "sasl_oauthbearer_assertion_claim_nbf_seconds": _ASSERTION,
    "sasl_oauthbearer_assertion_claim_sub": _ASSERTION,
    "sasl_oauthbearer_assertion_jwt_template_file": _ASSERTION,
    "sasl_oauthbearer_assertion_template_file": _ASSERTION,
    "sasl_oauthbearer_assertion_private_key_file": _ASSERTION,
    "sasl_oauthbearer_assertion_private_key_passphrase": _ASSERTION,
    "sasl_oauthbearer_assertion_private_key_pem": _ASSERTION,
}
"""Settings that are refused when given a value, by name, with the reason (P-B.9)."""

WORDS: Final = {
    "sasl_oauthbearer_method": ("default", "oidc"),
    "sasl_oauthbearer_metadata_authentication_type": ("none",),
}
"""Settings of librdkafka of which only these values mean something here: nothing special."""


def ignored(name: str) -> str | None:
    """Return why the setting `name` is taken and ignored, or None if it is not."""
    if name.startswith("schema_registry_"):
        return _REGISTRY
    return IGNORED.get(name)
