package replica

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

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

// logfmt reads key=value pairs as log tools do: a value is quoted or has no space,
// quote or equals sign.
func logfmt(line string) (pairs map[string]string, rest string) {
	pair := regexp.MustCompile(`^([^\s"=]+)=("(?:[^"\\]|\\.)*"|[^\s"=]*)(?: |$)`)
	pairs = map[string]string{}
	for m := pair.FindStringSubmatch(line); m != nil; m = pair.FindStringSubmatch(line) {
		value := m[2]
		if unquoted, err := strconv.Unquote(value); err == nil {
			value = unquoted
		}
		pairs[m[1]], line = value, line[len(m[0]):]
	}
	return pairs, line
}

func TestATextLineIsItsMessageAndThenLogfmt(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, config.Log{})
	log.Info(`broker cluster: joined "a"`, "members", 2)
	log.With("filter", "x=y").WithGroup("g").Warn("no time=now\nnor later", "error", errors.New("a \"b\"\nc time=5"), "empty", "", "list", []string{"a", "b"})
	want := []struct {
		message string
		pairs   map[string]string
	}{
		{`broker cluster: joined "a"`, map[string]string{"level": "INFO", "members": "2"}},
		{`embedded broker: no time:now\nnor later`, map[string]string{"level": "WARN", "filter": "x=y", "g.error": "a \"b\"\nc time=5", "g.empty": "", "g.list": "[a b]"}},
	}
	for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		message, fields, _ := strings.Cut(line, " time=")
		pairs, rest := logfmt("time=" + fields)
		if message != want[i].message || rest != "" {
			t.Errorf("line %q: message %q, want %q; not logfmt: %q", line, message, want[i].message, rest)
		}
		if _, err := time.Parse(time.RFC3339Nano, pairs["time"]); err != nil {
			t.Errorf("line %q: %v", line, err)
		}
		delete(pairs, "time")
		if !maps.Equal(pairs, want[i].pairs) {
			t.Errorf("line %q: pairs %q, want %q", line, pairs, want[i].pairs)
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
