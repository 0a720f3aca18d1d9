"""The APIs, one module for each family; KafkaApis calls them."""
