-- dataverse.metrics has its numbers.
DROP VIEW dataverse.pool_metrics;
