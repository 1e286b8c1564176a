package replica

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/config"
)

// Every line of the log begins with one of these, by which an operator and the
// runbooks tell the parts of a replica apart.
const (
	brokerPrefix  = "embedded broker: "
	clusterPrefix = "broker cluster: "
	meshPrefix    = "mesh: "
)

// NewLogger returns a logger that writes to w as the configuration says. In the
// text format the message comes first, so that a line begins with its prefix; what
// follows it is logfmt, key=value, quoted where it has to be, time and level first:
//
//	embedded broker: listening time=2026-01-31T08:00:00.000Z level=INFO listener=tcp address=[::]:1883
//
// The message ends at the first " time=", which none contains.
func NewLogger(w io.Writer, c config.Log) *slog.Logger {
	level := slog.LevelInfo
	// The configuration has checked the word; an empty one means info.
	_ = level.UnmarshalText([]byte(c.Level))
	var h slog.Handler
	if c.Format == "json" {
		h = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	} else {
		h = newTextHandler(w, level)
	}
	return slog.New(prefixed{h})
}

// prefixed adds brokerPrefix to the messages that have no prefix yet. It makes the
// promise hold for every package at once, and for the libraries that log through
// ours.
type prefixed struct{ slog.Handler }

// withPrefix wraps a handler unless it is wrapped already.
func withPrefix(h slog.Handler) slog.Handler {
	if p, ok := h.(prefixed); ok {
		return p
	}
	return prefixed{h}
}

func (p prefixed) Handle(ctx context.Context, r slog.Record) error {
	for _, prefix := range []string{brokerPrefix, clusterPrefix, meshPrefix} {
		if strings.HasPrefix(r.Message, prefix) {
			return p.Handler.Handle(ctx, r)
		}
	}
	r.Message = brokerPrefix + r.Message
	return p.Handler.Handle(ctx, r)
}

func (p prefixed) WithAttrs(attrs []slog.Attr) slog.Handler {
	return prefixed{p.Handler.WithAttrs(attrs)}
}

func (p prefixed) WithGroup(name string) slog.Handler { return prefixed{p.Handler.WithGroup(name)} }

// textHandler is slog's text format with the message in front.
type textHandler struct {
	attrs slog.Handler // writes the attributes alone into line.buf
	line  *textLine
}

const timeKey = " time="

// inMessage keeps a message on its line, where a line break would begin one without
// a prefix, and before the time that ends it.
var inMessage = strings.NewReplacer("\n", `\n`, "\r", `\r`, timeKey, " time:")

type textLine struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
	out []byte       // guarded by mu
	w   io.Writer    // guarded by mu: one Write per line
}

func newTextHandler(w io.Writer, level slog.Leveler) slog.Handler {
	line := &textLine{w: w}
	return textHandler{line: line, attrs: slog.NewTextHandler(&line.buf, &slog.HandlerOptions{Level: level, ReplaceAttr: dropBuiltin})}
}

// dropBuiltin removes what textHandler writes itself. An attribute that happens
// to have the same key stays: its value is of another kind or not empty.
func dropBuiltin(groups []string, a slog.Attr) slog.Attr {
	_, level := a.Value.Any().(slog.Level)
	if len(groups) == 0 && (a.Key == slog.LevelKey && level || a.Key == slog.MessageKey && a.Value.String() == "") {
		return slog.Attr{}
	}
	return a
}

func (h textHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.attrs.Enabled(ctx, level)
}

func (h textHandler) Handle(ctx context.Context, r slog.Record) error {
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.buf.Reset()
	bare := r.Clone()
	bare.Message, bare.Time = "", time.Time{}
	if err := h.attrs.Handle(ctx, bare); err != nil {
		return err
	}
	out := append(h.line.out[:0], inMessage.Replace(r.Message)...)
	out = append(out, timeKey...)
	out = r.Time.UTC().AppendFormat(out, "2006-01-02T15:04:05.000Z")
	out = append(out, " level="...)
	out = append(out, r.Level.String()...)
	if rest := h.line.buf.Bytes(); len(rest) > 1 {
		out = append(append(out, ' '), rest...)
	} else {
		out = append(out, '\n')
	}
	h.line.out = out
	_, err := h.line.w.Write(out)
	return err
}

func (h textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return textHandler{h.attrs.WithAttrs(attrs), h.line}
}

func (h textHandler) WithGroup(name string) slog.Handler {
	return textHandler{h.attrs.WithGroup(name), h.line}
}
