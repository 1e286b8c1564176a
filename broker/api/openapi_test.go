package api

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"maestrohub.io/uns/broker/metrics"
)

func document(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(Document)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestTheDocumentIsValidOpenAPI(t *testing.T) {
	if err := document(t).Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestDocumentAndRoutesAreTheSame(t *testing.T) {
	inDocument := map[string]*openapi3.Operation{}
	for path, item := range document(t).Paths.Map() {
		for method, operation := range item.Operations() {
			inDocument[method+" "+path] = operation
		}
	}
	for _, r := range New(Options{Metrics: metrics.New()}).routes() {
		name := r.method + " " + r.path
		operation := inDocument[name]
		delete(inDocument, name)
		if operation == nil {
			t.Errorf("route %s: not in openapi.yaml", name)
			continue
		}
		scope, _ := operation.Extensions["x-scope"].(string)
		if scope != r.scope {
			t.Errorf("route %s: needs scope %q, openapi.yaml says %q", name, r.scope, scope)
		}
		if open := operation.Security != nil && len(*operation.Security) == 0; open != (r.open != nil) {
			t.Errorf("route %s: without credential %t, openapi.yaml says %t", name, r.open != nil, open)
		}
		if r.scope != "" && !slices.Contains(Scopes, r.scope) {
			t.Errorf("route %s: scope %q is not among Scopes", name, r.scope)
		}
	}
	for name := range inDocument {
		t.Errorf("openapi.yaml has %s, which no route serves", name)
	}
}

func TestEveryProblemCodeIsInTheDocument(t *testing.T) {
	enum := document(t).Components.Schemas["Problem"].Value.Properties["code"].Value.Enum
	var listed []string
	for _, code := range enum {
		listed = append(listed, code.(string))
	}
	if slices.Sort(listed); !slices.Equal(listed, slices.Sorted(slices.Values(problemCodes))) {
		t.Errorf("openapi.yaml lists the codes %s\nthe API has %s", strings.Join(listed, " "), strings.Join(problemCodes, " "))
	}
}
