// Package alerts_test holds the twelve alerts to what the broker exports and to what a
// rule owes those it wakes: promtool's own checks and unit tests, the names, groups and
// severities that are promised, every metric and label of every expression, and the
// dashboard's. What real brokers make of them is in tests/alerts.
package alerts_test
