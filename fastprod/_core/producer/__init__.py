"""The compiled half of KafkaProducer."""
