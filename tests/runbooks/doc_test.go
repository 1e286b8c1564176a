// Package runbooks_test reads the runbooks as a machine can: a page for each alert with
// the rule's own words, sections in order, commands that parse, and names, metrics and
// log lines that exist in the chart and the broker. How a page is made stands in
// runbooks/README.md. What only Kubernetes can tell is in tests/kubernetes.
package runbooks_test
