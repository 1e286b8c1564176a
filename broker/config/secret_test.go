package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestASecretDoesNotPrint(t *testing.T) {
	holder := struct{ URL Secret }{NewSecret("hunter2")}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("start", "url", holder.URL, "all", holder)
	asJSON, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	for how, text := range map[string]string{
		"v": fmt.Sprintf("%v %s %q", holder, holder.URL, holder.URL), "+v": fmt.Sprintf("%+v", holder), "#v": fmt.Sprintf("%#v", holder),
		"log": logged.String(), "json": string(asJSON), "yaml": string(asYAML),
	} {
		if strings.Contains(text, "hunter2") || !strings.Contains(text, hidden) {
			t.Errorf("%s prints %s", how, text)
		}
	}
	if holder.URL.Reveal() != "hunter2" {
		t.Error("Reveal does not")
	}
}

func TestASecretIsReadFromItsFileWithoutTheLastNewline(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "url"), []byte("postgres://u:hunter2@db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Default()
	r := &reader{dir: dir}
	text := "modules: {uns: {historian: {timescale: {url_file: url}}}}"
	section(r, settings(), c, r.document([]byte(text)), "", root)
	if len(r.violations) > 0 {
		t.Fatal(r.violations)
	}
	if got := c.Historian.TimescaleURL.Reveal(); got != "postgres://u:hunter2@db" {
		t.Errorf("read %q", got)
	}
}

func TestASecretIsReadAgainFromItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("first\n")
	c, err := Parse([]byte("modules: {uns: {nats: {user: u, password_file: " + file + "}}}"))
	if err != nil {
		t.Fatal(err)
	}
	put("second\n")
	if now, then := c.NATS.Password.Renewed(), c.NATS.Password.Reveal(); now != "second" || then != "first" {
		t.Errorf("now %q, at the start %q", now, then)
	}
	put("\n") // caught while it is written
	if got := c.NATS.Password.Renewed(); got != "first" {
		t.Errorf("from an empty file: %q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := c.NATS.Password.Renewed(); got != "first" {
		t.Errorf("without its file: %q", got)
	}
	if got := NewSecret("x").Renewed(); got != "x" {
		t.Errorf("one without a file: %q", got)
	}
}
