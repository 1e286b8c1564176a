// Package contract checks the layers against each other: chart × broker, values ×
// schema × README × templates, alerts × metrics, and what Kubernetes makes of the
// rendered manifests.
//
// chart/values.yaml is the one source of the chart's values. What stands above a key
// documents it; annotations tie it to the broker's settings (@config), to a Kubernetes
// type (@kubernetes) or to further rules (@schema). From it this package writes
//
//   - values.schema.json, closed at every level, with the broker's own ranges;
//   - files/settings.json, by which the templates write config.yaml and check the
//     durations and sizes that JSON Schema cannot;
//   - README.md.
//
// go test ./tests/contract -rewrite writes them anew; without it the test says what
// is not current.
package contract
