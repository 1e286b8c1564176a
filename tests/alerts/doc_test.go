// Package alerts_test breaks real replicas, NATS and PostgreSQL and has a real Prometheus,
// with the plain rule files, say so.
//
// Nothing of the rules is scaled. What fires at once, or within the time its `for` and
// window ask for, fires in the Prometheus that scrapes the replicas; so does what
// resolves with its cause. An alert about a count stays until the count is 10 to 60
// minutes old: that is shown with the samples that were scraped, continued at their last
// values, by promtool and the same files.
//
// Two alerts have no fault from outside: AppendsReordered is provoked in broker/ingest,
// SubscriptionsKept in broker/server. AppendsHeld wants minutes of a slow NATS, whose
// rows tests/cluster has.
package alerts_test
