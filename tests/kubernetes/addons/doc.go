// Package addons pins what clusters have besides Kubernetes: the definitions (CRDs) of
// cert-manager, the Prometheus operator and the Gateway API, which lie in their modules,
// and cert-manager's controllers, of which the command certmanager is made.
package addons

// The modules whose files are used, not their code.
import (
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
	_ "sigs.k8s.io/gateway-api/pkg/consts"
)
