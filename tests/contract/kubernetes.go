package contract

import "strings"

// kubernetesSchema is the schema of a value that is a type of the Kubernetes API,
// "core/v1.Toleration" or a list of it with [] behind.
func kubernetesSchema(name string) (map[string]any, error) {
	if strings.HasSuffix(name, "[]") {
		return map[string]any{"type": "array", "items": map[string]any{"type": "object"}}, nil
	}
	return map[string]any{"type": "object"}, nil
}
