"""The numbers and names of Kafka's APIs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
DELETE_RECORDS: Final = 21
INIT_PRODUCER_ID: Final = 22
OFFSET_FOR_LEADER_EPOCH: Final = 23
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
WRITE_TXN_MARKERS: Final = 27
TXN_OFFSET_COMMIT: Final = 28
DESCRIBE_ACLS: Final = 29
CREATE_ACLS: Final = 30
DELETE_ACLS: Final = 31
DESCRIBE_CONFIGS: Final = 32
ALTER_CONFIGS: Final = 33
DESCRIBE_LOG_DIRS: Final = 35
SASL_AUTHENTICATE: Final = 36
CREATE_PARTITIONS: Final = 37
DELETE_GROUPS: Final = 42
ELECT_LEADERS: Final = 43
INCREMENTAL_ALTER_CONFIGS: Final = 44
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46
OFFSET_DELETE: Final = 47
DESCRIBE_CLIENT_QUOTAS: Final = 48
ALTER_CLIENT_QUOTAS: Final = 49
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50
ALTER_USER_SCRAM_CREDENTIALS: Final = 51
DESCRIBE_CLUSTER: Final = 60
DESCRIBE_PRODUCERS: Final = 61
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
CONSUMER_GROUP_HEARTBEAT: Final = 68
CONSUMER_GROUP_DESCRIBE: Final = 69
GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
PUSH_TELEMETRY: Final = 72

API_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        PRODUCE: "Produce",
        FETCH: "Fetch",
        LIST_OFFSETS: "ListOffsets",
        METADATA: "Metadata",
        OFFSET_COMMIT: "OffsetCommit",
        OFFSET_FETCH: "OffsetFetch",
        FIND_COORDINATOR: "FindCoordinator",
        JOIN_GROUP: "JoinGroup",
        HEARTBEAT: "Heartbeat",
        LEAVE_GROUP: "LeaveGroup",
        SYNC_GROUP: "SyncGroup",
        DESCRIBE_GROUPS: "DescribeGroups",
        LIST_GROUPS: "ListGroups",
        SASL_HANDSHAKE: "SaslHandshake",
        API_VERSIONS: "ApiVersions",
        CREATE_TOPICS: "CreateTopics",
        DELETE_TOPICS: "DeleteTopics",
        DELETE_RECORDS: "DeleteRecords",
        INIT_PRODUCER_ID: "InitProducerId",
        OFFSET_FOR_LEADER_EPOCH: "OffsetForLeaderEpoch",
        ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxn",
        ADD_OFFSETS_TO_TXN: "AddOffsetsToTxn",
        END_TXN: "EndTxn",
        WRITE_TXN_MARKERS: "WriteTxnMarkers",
        TXN_OFFSET_COMMIT: "TxnOffsetCommit",
        DESCRIBE_ACLS: "DescribeAcls",
        CREATE_ACLS: "CreateAcls",
        DELETE_ACLS: "DeleteAcls",
        DESCRIBE_CONFIGS: "DescribeConfigs",
        ALTER_CONFIGS: "AlterConfigs",
        DESCRIBE_LOG_DIRS: "DescribeLogDirs",
        SASL_AUTHENTICATE: "SaslAuthenticate",
        CREATE_PARTITIONS: "CreatePartitions",
        DELETE_GROUPS: "DeleteGroups",
        ELECT_LEADERS: "ElectLeaders",
        INCREMENTAL_ALTER_CONFIGS: "IncrementalAlterConfigs",
        ALTER_PARTITION_REASSIGNMENTS: "AlterPartitionReassignments",
        LIST_PARTITION_REASSIGNMENTS: "ListPartitionReassignments",
        OFFSET_DELETE: "OffsetDelete",
        DESCRIBE_CLIENT_QUOTAS: "DescribeClientQuotas",
        ALTER_CLIENT_QUOTAS: "AlterClientQuotas",
        DESCRIBE_USER_SCRAM_CREDENTIALS: "DescribeUserScramCredentials",
        ALTER_USER_SCRAM_CREDENTIALS: "AlterUserScramCredentials",
        DESCRIBE_CLUSTER: "DescribeCluster",
        DESCRIBE_PRODUCERS: "DescribeProducers",
        DESCRIBE_TRANSACTIONS: "DescribeTransactions",
        LIST_TRANSACTIONS: "ListTransactions",
        CONSUMER_GROUP_HEARTBEAT: "ConsumerGroupHeartbeat",
        CONSUMER_GROUP_DESCRIBE: "ConsumerGroupDescribe",
        GET_TELEMETRY_SUBSCRIPTIONS: "GetTelemetrySubscriptions",
        PUSH_TELEMETRY: "PushTelemetry",
    }
)
