package model

import _ "embed"

//go:embed example.yaml
var example []byte

// Example returns the model file of a small plant, workspace "plant", that shows
// every key.
func Example() []byte { return append([]byte(nil), example...) }
