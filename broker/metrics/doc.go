// Package metrics is every metric the broker exports. The list is metrics.go and nothing else: alerts,
// dashboards and the reference in the README are checked against it.
//
//  1. New makes all metrics, in a registry of its own, together with the Go and process collectors.
//  2. Whoever has something to count gets the *Metrics and uses the field: m.ValuesAccepted.Inc(). Fields
//     used per packet are resolved once (ByType), so that counting is one atomic addition.
//  3. A number that someone keeps anyway (how many retained messages, how large the store) is a
//     *Reading: its owner hands over a function, called at each scrape.
//  4. Handler serves the registry at /metrics.
//
// Names have the prefix maestrohub_. Every label value a metric may have is listed with it and exists
// from the start, at zero, so that a rate over the first occurrence is seen.
package metrics
