package access_test

import (
	"strings"
	"testing"

	"maestrohub.io/uns/broker/access"
)

func TestSeveralFilesOfClientsAreOne(t *testing.T) {
	joined, err := access.JoinSeeds([]access.SeedFile{
		{Name: "a.yaml", Data: []byte("clients:\n  - &press {id: press, workspace: plant, secret: 'correct horse', publish: &all ['line/#'], subscribe: *all}\n")},
		{Name: "b.yaml", Data: []byte("clients:\n  - {id: '007', workspace: plant, secret: 'battery staple', publish: &all [], subscribe: *all}\n")},
		{Name: "none.yaml", Data: []byte("clients: []\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := access.CheckSeed(joined); err != nil {
		t.Fatalf("what was joined is refused: %v\n%s", err, joined)
	}
	for _, want := range []string{"press", `"007"`, "line/#"} {
		if strings.Count(string(joined), want) == 0 {
			t.Errorf("no %s in\n%s", want, joined)
		}
	}
}

func TestFilesOfClientsAreRefusedByName(t *testing.T) {
	press := []byte("clients:\n  - {id: press, workspace: plant, secret: 'correct horse'}\n")
	for _, c := range []struct {
		name  string
		files []access.SeedFile
		want  string
	}{
		{"an id in two files", []access.SeedFile{{"a.yaml", press}, {"b.yaml", press}}, `b.yaml: API client "press" is in a.yaml too`},
		{"a mistake in one", []access.SeedFile{{"a.yaml", press}, {"b.yaml", []byte("clients: 7\n")}}, "b.yaml: line 1: clients: must be a list"},
		{"an empty one", []access.SeedFile{{"b.yaml", nil}}, "b.yaml: empty"},
	} {
		if _, err := access.JoinSeeds(c.files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
