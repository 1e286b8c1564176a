package replica

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/config"
)

var linePrefix = regexp.MustCompile(`^(embedded broker|broker cluster|mesh): \S`)

func TestEveryTextLineBeginsWithAPrefix(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, config.Log{Format: "text", Level: "info"})
	log.Info("started")
	log.Info("broker cluster: joined", "members", 2)
	log.With("replica", "a").Warn("mesh: link down", "peer", "b")
	log.WithGroup("g").Error("two\nlines", "error", errors.New("x\ny"), "level", "own", "msg", "own", "time", 7)
	log.Debug("not written")
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines, want 4:\n%s", len(lines), out.String())
	}
	for _, l := range lines {
		if !linePrefix.MatchString(l) || strings.Count(l, " time=2") != 1 {
			t.Errorf("line %q: want a prefix in front and the time once", l)
		}
	}
	for line, want := range map[int]string{
		1: "level=INFO members=2",
		2: "level=WARN replica=a peer=b",
		3: `embedded broker: two\nlines`,
	} {
		if !strings.Contains(lines[line], want) {
			t.Errorf("line %q: want %q in it", lines[line], want)
		}
	}
	for _, want := range []string{"g.level=own", "g.msg=own", "g.time=7"} {
		if !strings.Contains(lines[3], want) {
			t.Errorf("line %q: want the attribute %s kept", lines[3], want)
		}
	}
}

func TestAttributesNamedLikeTheLinesOwnAreKept(t *testing.T) {
	var out bytes.Buffer
	NewLogger(&out, config.Log{}).Info("m", "level", "high", "msg", "hello", "time", "noon")
	for _, want := range []string{"level=high", "msg=hello", "time=noon"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("line %q: want %s in it", out.String(), want)
		}
	}
}

func TestEveryJSONMessageBeginsWithAPrefix(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(withPrefix(NewLogger(&out, config.Log{Format: "json", Level: "debug"}).Handler()))
	log.Debug("started", "port", 1883)
	log.Info("mesh: up")
	for _, l := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var line struct{ Msg string }
		if err := json.Unmarshal([]byte(l), &line); err != nil || !linePrefix.MatchString(line.Msg) {
			t.Errorf("line %s: message %q (error %v), want one prefix in front", l, line.Msg, err)
		}
		if strings.Count(line.Msg, "embedded broker") > 1 {
			t.Errorf("line %s: prefix twice", l)
		}
	}
}
