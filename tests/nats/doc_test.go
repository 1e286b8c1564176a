// Package nats_test renders the chart's NATS and runs it: the generated schema of its
// values, the configuration as nats-server itself reads it, and three servers started
// from the rendered files, with accounts and mutual TLS, that the broker's own client
// signs in to, that are drained, reloaded and probed as Kubernetes does it.
package nats_test
