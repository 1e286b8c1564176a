package contract

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8syaml "sigs.k8s.io/yaml"
)

// What cert-manager.io/v1 documents of the fields the chart uses. tests/kubernetes gives the objects to its controllers.
type (
	issuerRef struct {
		Name  string `json:"name"`
		Kind  string `json:"kind"`
		Group string `json:"group"`
	}
	certManagerCertificate struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            struct {
			SecretName  string          `json:"secretName"`
			CommonName  string          `json:"commonName,omitempty"`
			DNSNames    []string        `json:"dnsNames,omitempty"`
			IPAddresses []string        `json:"ipAddresses,omitempty"`
			Duration    metav1.Duration `json:"duration,omitempty"`
			RenewBefore metav1.Duration `json:"renewBefore,omitempty"`
			IsCA        bool            `json:"isCA,omitempty"`
			Usages      []string        `json:"usages,omitempty"`
			IssuerRef   issuerRef       `json:"issuerRef"`
			PrivateKey  struct {
				Algorithm      string `json:"algorithm,omitempty"`
				Size           int    `json:"size,omitempty"`
				RotationPolicy string `json:"rotationPolicy,omitempty"`
			} `json:"privateKey,omitempty"`
		} `json:"spec"`
	}
	certManagerIssuer struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            struct {
			SelfSigned *struct{} `json:"selfSigned,omitempty"`
			CA         *struct {
				SecretName string `json:"secretName"`
			} `json:"ca,omitempty"`
		} `json:"spec"`
	}
)

// keyUsages are cert-manager's words.
var keyUsages = []string{"signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment", "cert sign", "crl sign",
	"encipher only", "decipher only", "any", "server auth", "client auth"}

func TestCertManagersObjectsAreAsDocumented(t *testing.T) {
	values := Merged(everythingOn(), map[string]any{
		"certManager": map[string]any{"enabled": true, "issuerRef": map[string]any{"name": "plant"},
			"mqtt": map[string]any{"enabled": true, "dnsNames": []any{"mqtt.example.com"}, "ipAddresses": []any{"192.0.2.1"}}},
		"uns": map[string]any{"mqtt": map[string]any{"embedded": map[string]any{"tls": map[string]any{"secretName": "mqtt-tls"}}}},
	})
	r := render(t, values)
	got := map[string]certManagerCertificate{}
	issuers := map[string]certManagerIssuer{}
	for _, o := range r.Objects {
		if o.Text("apiVersion") != "cert-manager.io/v1" {
			continue
		}
		switch o.Text("kind") {
		case "Certificate":
			var c certManagerCertificate
			if err := k8syaml.UnmarshalStrict(o.YAML, &c); err != nil {
				t.Errorf("%s: %v", o, err)
			}
			got[c.Spec.SecretName] = c
		case "Issuer":
			var i certManagerIssuer
			if err := k8syaml.UnmarshalStrict(o.YAML, &i); err != nil {
				t.Errorf("%s: %v", o, err)
			}
			issuers[i.Metadata.Name] = i
		default:
			t.Errorf("%s: unknown to this test", o)
		}
	}
	deps, own := "maestrohub-deps", "maestrohub"
	for name, want := range map[string]struct {
		namespace, issuer, kind string
		names, usages           []string
	}{
		"maestrohub-uns-mesh-ca":     {own, "maestrohub-uns-self", "Issuer", nil, []string{"cert sign"}},
		"maestrohub-uns-mesh-tls":    {own, "maestrohub-uns-mesh", "Issuer", []string{"*.maestrohub-uns-headless.maestrohub.svc"}, []string{"server auth", "client auth"}},
		"maestrohub-nats-server-tls": {deps, "plant", "ClusterIssuer", []string{"maestrohub-nats.maestrohub-deps.svc", "*.maestrohub-nats-headless.maestrohub-deps.svc.cluster.local"}, []string{"server auth", "client auth"}},
		"maestrohub-nats-client-tls": {own, "plant", "ClusterIssuer", nil, []string{"client auth"}},
		"mqtt-tls":                   {own, "plant", "ClusterIssuer", []string{"mqtt.example.com", "maestrohub-uns-mqtt.maestrohub.svc"}, []string{"server auth"}},
	} {
		c, there := got[name]
		if !there {
			t.Errorf("no Certificate for the Secret %s", name)
			continue
		}
		delete(got, name)
		ref := c.Spec.IssuerRef
		if c.Metadata.Namespace != want.namespace || ref.Name != want.issuer || ref.Kind != want.kind || ref.Group != "cert-manager.io" {
			t.Errorf("%s in %s from %+v", name, c.Metadata.Namespace, ref)
		}
		for _, n := range want.names {
			if !slices.Contains(c.Spec.DNSNames, n) {
				t.Errorf("%s does not name %s: %v", name, n, c.Spec.DNSNames)
			}
		}
		for _, u := range want.usages {
			if !slices.Contains(c.Spec.Usages, u) {
				t.Errorf("%s is not for %s", name, u)
			}
		}
		for _, u := range c.Spec.Usages {
			if !slices.Contains(keyUsages, u) {
				t.Errorf("%s: usage %q is none of cert-manager's", name, u)
			}
		}
		if slices.ContainsFunc(c.Spec.DNSNames, func(n string) bool { return strings.Contains(n, "localhost") }) || c.Spec.Duration.Duration <= 0 {
			t.Errorf("%s: %+v", name, c.Spec)
		}
	}
	for name := range got {
		t.Errorf("a Certificate for %s, which this test does not know", name)
	}
	if i := issuers["maestrohub-uns-self"]; i.Spec.SelfSigned == nil || i.Metadata.Namespace != own {
		t.Errorf("the issuer of the mesh's authority: %+v", i)
	}
	if i := issuers["maestrohub-uns-mesh"]; i.Spec.CA == nil || i.Spec.CA.SecretName != "maestrohub-uns-mesh-ca" || i.Metadata.Namespace != own {
		t.Errorf("the mesh's issuer: %+v", i)
	}
	// A link trusts whom the mesh's authority signs: it must sign nothing else.
	plan := planOf(t, r)
	if len(plan.Certificates) != 0 || len(plan.Authorities) != 0 || len(plan.Passwords) == 0 {
		t.Errorf("the Job still makes %+v", plan)
	}
}
