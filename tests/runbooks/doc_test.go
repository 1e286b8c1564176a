// Package runbooks_test reads the runbooks as a machine can: a page for each alert with
// the rule's own words, sections in order, commands that parse, and names, metrics and
// log lines that exist in the chart and the broker. It holds every block of every page of
// the repository to the convention, runbooks/README.md: a test runs it, or it says why
// none does; and runs those that need no Kubernetes. The others are run in
// tests/kubernetes.
package runbooks_test
