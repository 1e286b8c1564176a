package contract

import (
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kubernetesTypes are the types a value may be, by the name in @kubernetes.
var kubernetesTypes = map[string]reflect.Type{
	"apps/v1.StatefulSetUpdateStrategy":            reflect.TypeFor[appsv1.StatefulSetUpdateStrategy](),
	"core/v1.Affinity":                             reflect.TypeFor[corev1.Affinity](),
	"core/v1.Container":                            reflect.TypeFor[corev1.Container](),
	"core/v1.EnvFromSource":                        reflect.TypeFor[corev1.EnvFromSource](),
	"core/v1.EnvVar":                               reflect.TypeFor[corev1.EnvVar](),
	"core/v1.HostAlias":                            reflect.TypeFor[corev1.HostAlias](),
	"core/v1.PodDNSConfig":                         reflect.TypeFor[corev1.PodDNSConfig](),
	"core/v1.ResourceRequirements":                 reflect.TypeFor[corev1.ResourceRequirements](),
	"core/v1.Toleration":                           reflect.TypeFor[corev1.Toleration](),
	"core/v1.TopologySpreadConstraint":             reflect.TypeFor[corev1.TopologySpreadConstraint](),
	"core/v1.Volume":                               reflect.TypeFor[corev1.Volume](),
	"core/v1.VolumeMount":                          reflect.TypeFor[corev1.VolumeMount](),
	"networking/v1.NetworkPolicyPeer":              reflect.TypeFor[networkingv1.NetworkPolicyPeer](),
	"networking/v1.NetworkPolicyIngressRule":       reflect.TypeFor[networkingv1.NetworkPolicyIngressRule](),
	"networking/v1.NetworkPolicyEgressRule":        reflect.TypeFor[networkingv1.NetworkPolicyEgressRule](),
	"gateway.networking.k8s.io/v1.ParentReference": reflect.TypeFor[parentReference](),
	"monitoring.coreos.com/v1.RelabelConfig":       reflect.TypeFor[relabelConfig](),
}

// parentReference is the Gateway API's, which is too small a part of it to take the
// whole for.
type parentReference struct {
	Group       string `json:"group"`
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	SectionName string `json:"sectionName"`
	Port        int32  `json:"port"`
}

// relabelConfig is the Prometheus operator's, likewise.
type relabelConfig struct {
	SourceLabels []string `json:"sourceLabels"`
	Separator    string   `json:"separator"`
	TargetLabel  string   `json:"targetLabel"`
	Regex        string   `json:"regex"`
	Modulus      int64    `json:"modulus"`
	Replacement  string   `json:"replacement"`
	Action       string   `json:"action"`
}

// kubernetesSchema is the closed schema of a value that is a type of the Kubernetes
// API, "core/v1.Toleration" or a list of it with [] behind. What types have in common
// goes into definitions.
func kubernetesSchema(name string, definitions map[string]any) (map[string]any, error) {
	element, list := strings.CutSuffix(name, "[]")
	t, known := kubernetesTypes[element]
	if !known {
		return nil, fmt.Errorf("@kubernetes %s: not a type this package knows: add it to kubernetes.go", name)
	}
	if list {
		return map[string]any{"type": "array", "items": schemaOf(t, definitions)}, nil
	}
	// Not a reference: what stands beside one is ignored in draft 7.
	schemaOf(t, definitions)
	own := definitions[t.String()].(map[string]any)
	return map[string]any{"type": own["type"], "properties": own["properties"], "additionalProperties": false}, nil
}

// written are types that are written otherwise than as their fields.
var written = map[reflect.Type]map[string]any{
	reflect.TypeFor[resource.Quantity]():  {"type": []any{"string", "number"}},
	reflect.TypeFor[intstr.IntOrString](): {"type": []any{"string", "integer"}},
	reflect.TypeFor[metav1.Time]():        {"type": "string"},
	// Of the metadata of a template only these two are the user's.
	reflect.TypeFor[metav1.ObjectMeta](): {"type": "object", "additionalProperties": false, "properties": map[string]any{
		"labels":      map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
		"annotations": map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
	}},
}

func schemaOf(t reflect.Type, definitions map[string]any) map[string]any {
	if s, ok := written[t]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), definitions)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string"}
		}
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), definitions)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem(), definitions)}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	}
	name := t.String()
	if _, done := definitions[name]; !done {
		properties := make(map[string]any)
		definitions[name] = map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
		fields(t, properties, definitions)
	}
	return map[string]any{"$ref": "#/definitions/" + name}
}

// fields are a struct's, with those of what it embeds.
func fields(t reflect.Type, properties, definitions map[string]any) {
	for f := range t.NumField() {
		field := t.Field(f)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			fields(embedded, properties, definitions)
		default:
			properties[name] = schemaOf(field.Type, definitions)
		}
	}
}
