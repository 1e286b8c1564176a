package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// trace is the history of a run: what was done, what each replica said and what the
// devices saw, by the cluster's clock.
type trace struct {
	mu    sync.Mutex
	began time.Time
	lines []line
}

type line struct {
	at   time.Duration
	text string
}

func newTrace() *trace { return &trace{began: time.Now()} }

func (t *trace) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line{time.Since(t.began), fmt.Sprintf(format, args...)})
}

// since is a moment as the history writes it.
func (t *trace) since(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%.3f", at.Sub(t.began).Seconds())
}

// String is the history, of at most its last lines.
func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	lines := t.lines
	const most = 4000
	if len(lines) > most {
		fmt.Fprintf(&b, "… %d lines before\n", len(lines)-most)
		lines = lines[len(lines)-most:]
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "%10.3f  %s\n", l.at.Seconds(), l.text)
	}
	return b.String()
}

// logger returns a replica's log, which goes into the history.
func (t *trace) logger(name string, seen func(message string, attrs map[string]string) bool) *slog.Logger {
	return slog.New(&handler{t, name, seen, nil})
}

type handler struct {
	trace *trace
	name  string
	seen  func(message string, attrs map[string]string) bool // false: it is not to be in the history
	attrs []slog.Attr
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	attrs := map[string]string{}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v %s", h.name, r.Level, r.Message)
	add := func(a slog.Attr) bool {
		attrs[a.Key] = a.Value.String()
		fmt.Fprintf(&b, " %s=%q", a.Key, a.Value.String())
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if h.seen(r.Message, attrs) {
		h.trace.say("%s", b.String())
	}
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = append(append([]slog.Attr(nil), h.attrs...), attrs...)
	return &c
}

func (h *handler) WithGroup(string) slog.Handler { return h }
