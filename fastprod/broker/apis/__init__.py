"""One module for each family of APIs: what `KafkaApis` dispatches to."""
