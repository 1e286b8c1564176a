// Package limits meets every limit of the broker from outside: each field of
// config.Limits has a test of its name that sets it low and shows what a device
// sees at the bound and beyond it. A limit without such a test fails
// TestEveryLimitIsMet.
package limits

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/config"
)

// together are limits that have no effect alone and are met in another's test.
var together = map[string]string{
	"TrustClientAddresses":  "MaxConnectionsPerSource",
	"AuthFailureWindow":     "AuthFailureThreshold",
	"AuthFailureBackoff":    "AuthFailureThreshold",
	"AuthFailureBackoffMax": "AuthFailureThreshold",
	"ConnectBudget":         "MaxConnectsAuthenticating",
}

func TestEveryLimitIsMet(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool)
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[strings.TrimPrefix(fn.Name.Name, "Test")] = true
			}
		}
	}
	limits := reflect.TypeFor[config.Limits]()
	for i := range limits.NumField() {
		name := limits.Field(i).Name
		if other := together[name]; other != "" {
			name = other
		}
		if !tests[name] {
			t.Errorf("no test Test%s meets the limit %s", name, limits.Field(i).Name)
		}
	}
}
