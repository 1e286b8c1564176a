package historian

import (
	"errors"
	"log/slog"
	"strings"
)

// Outage is an ErrUnavailable in words for anybody, devices and unauthenticated
// probes among them: what is wrong and what ends it. Where, and what the disk or the
// database said, is the Cause's, which is for the log.
type Outage struct {
	Words string
	Cause error
}

// Error returns the words; the cause is not in them.
func (o *Outage) Error() string { return ErrUnavailable.Error() + ": " + o.Words }

// Unwrap makes it an ErrUnavailable and its cause.
func (o *Outage) Unwrap() []error { return []error{ErrUnavailable, o.Cause} }

// LogValue is the whole of it, for a log line that carries the error itself.
func (o *Outage) LogValue() slog.Value { return slog.StringValue(Details(o)) }

// Details is an error's text for the log, in one line: with the cause if there is an
// Outage in it.
func Details(err error) string {
	text := oneLine(err.Error())
	var o *Outage
	if errors.As(err, &o) && o.Cause != nil {
		text += ": " + oneLine(o.Cause.Error())
	}
	return text
}

// oneLine joins the lines of a text. Those in angle brackets are left out: with them
// libraries mark what they attach to an error.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !(strings.HasPrefix(line, "<") && strings.HasSuffix(line, ">")) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
