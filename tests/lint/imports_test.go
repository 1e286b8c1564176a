package lint_test

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "maestrohub.io/uns/"

// mayImport are the arrows of the broker's packages, downward only: data moves one
// way, and no package knows its caller. A package below another in the tree (an
// implementation, a conformance suite) may import what its parent may, and its
// parent. Adding an arrow here is a decision about the design.
var mayImport = map[string][]string{
	"value":       {},
	"mqtt":        {"value"},
	"topic":       {},
	"config":      {},
	"metrics":     {},
	"certificate": {},
	"listener":    {"certificate", "mqtt"},
	"state":       {},
	"historian":   {"value", "topic"},
	"retained":    {"state", "topic", "value"},
	"access":      {"state", "topic"},
	"model":       {"topic", "value"},
	"ingest":      {"historian", "state", "retained", "access", "model", "topic", "value", "metrics"},
	"cluster":     {"state", "value"},
	"mesh":        {"topic", "value"},
	"session":     {"mqtt", "topic", "state", "value"},
	"server":      {"access", "cluster", "config", "historian", "ingest", "listener", "mesh", "metrics", "model", "mqtt", "retained", "session", "state", "topic", "value"},
	"api":         {"access", "config", "historian", "ingest", "metrics", "model", "retained", "server", "state", "topic", "value"},
	"secrets":     {},
	"backup":      {"cluster", "state"},
	"replica":     nil, // all: it puts the others together
	"":            nil, // the command
}

func TestArrowsPointDownward(t *testing.T) {
	for _, s := range sources(t) {
		dir, inBroker := strings.CutPrefix(path.Dir(s.path), "broker")
		if !inBroker || s.test() || strings.Contains(s.path, "testdata/") {
			continue
		}
		dir = strings.TrimPrefix(dir, "/")
		pkg, _, _ := strings.Cut(dir, "/")
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("%s: package %s is not in the table of tests/lint: say there what it may import", s.path, pkg)
			continue
		}
		for _, i := range s.file.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			target, ours := strings.CutPrefix(imported, module+"broker/")
			if !ours {
				if strings.HasPrefix(imported, module) {
					t.Errorf("%s: the broker imports %s; tools and tests import the broker, never the other way round", s.at(i), imported)
				}
				continue
			}
			parent, _, implementation := strings.Cut(target, "/")
			switch {
			case allowed == nil || parent == pkg:
			case !slices.Contains(allowed, parent):
				t.Errorf("%s: package %s may not import %s, only %q", s.at(i), pkg, target, allowed)
			case implementation:
				t.Errorf("%s: package %s imports the implementation %s; only the replica chooses it", s.at(i), pkg, target)
			}
		}
	}
}

// forbidden are imports nobody may use, with the reason.
var forbidden = map[string]string{
	"log":                               "lines are written with log/slog, with stable keys",
	"io/ioutil":                         "os and io have what it had",
	"math/rand":                         "math/rand/v2 is seeded; what must not be guessed comes from crypto/rand",
	"unsafe":                            "no speed is worth a memory error",
	"github.com/mochi-mqtt/server/v2":   "the codec and the session flows are ours",
	"github.com/nats-io/nats-server/v2": "peers are built by tools/peers, a module of its own",
}

func TestForbiddenImports(t *testing.T) {
	for _, s := range sources(t) {
		for _, i := range s.file.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if reason, no := forbidden[imported]; no {
				t.Errorf("%s imports %s: %s", s.at(i), imported, reason)
			}
			// paho.mqtt.golang and paho.golang are third-party clients for tests.
			if strings.HasPrefix(imported, "github.com/eclipse/") && !s.test() {
				t.Errorf("%s imports %s outside tests", s.at(i), imported)
			}
		}
	}
}

func TestPackageNamesSayWhatTheyAre(t *testing.T) {
	for _, s := range sources(t) {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "manager", "base", "misc", "shared"}, name) {
			t.Errorf("%s: a package named %s says nothing; a package is a noun of the domain", s.path, name)
		}
	}
}
