package topic

import (
	"fmt"
	"strings"
)

// DefaultVersion is the first level of every name unless configured otherwise.
const DefaultVersion = "mHv1.0"

// The levels below a workspace that the broker keeps for itself. No device's
// topic may begin with one.
const (
	Ingress = "_ingress"
	Alerts  = "_alerts"
	Errors  = "_errors"
)

// Grammar builds and takes apart the broker's names. The zero value uses
// DefaultVersion.
type Grammar struct {
	// Version is the first level of every name: not empty, without "/" and
	// wildcards, not beginning with "$".
	Version string
}

// Inbox is an inbox name taken apart. The fields are parts of the name.
type Inbox struct {
	// Workspace is the slug, Client the API client whose inbox it is, and Topic
	// what it publishes to below its workspace. None is empty.
	Workspace, Client, Topic string
}

// GrammarError says why a name is not an inbox one can publish to.
type GrammarError struct {
	// Name is the name as it was given.
	Name string
	// Reason says what is wrong with it, for the person who chose the name.
	Reason string
	// Format is the form that was expected, with the version filled in.
	Format string
}

func (e *GrammarError) Error() string {
	return fmt.Sprintf("topic %s %s: publish to %s", quote(e.Name), e.Reason, e.Format)
}

// ParseInbox takes an inbox name apart: <version>/<workspace>/_ingress/<client>/<topic>.
// The name is a well-formed topic name. The error is a *GrammarError; without
// one, nothing is allocated.
func (g Grammar) ParseInbox(name string) (Inbox, error) {
	version, rest, _ := strings.Cut(name, "/")
	if version != g.version() {
		return Inbox{}, g.fail(name, "does not begin with this broker's version")
	}
	workspace, rest, _ := strings.Cut(rest, "/")
	if workspace == "" {
		return Inbox{}, g.fail(name, "names no workspace")
	}
	level, rest, _ := strings.Cut(rest, "/")
	if level != Ingress {
		return Inbox{}, g.fail(name, "is not in a device's inbox")
	}
	client, topic, _ := strings.Cut(rest, "/")
	if client == "" {
		return Inbox{}, g.fail(name, "names no client")
	}
	if topic == "" {
		return Inbox{}, g.fail(name, "ends before the topic")
	}
	if Reserved(topic) {
		return Inbox{}, g.fail(name, "has a topic that begins with a reserved level (_ingress, _alerts, _errors)")
	}
	return Inbox{Workspace: workspace, Client: client, Topic: topic}, nil
}

func (g Grammar) fail(name, reason string) error {
	return &GrammarError{Name: name, Reason: reason, Format: g.version() + "/<workspace>/" + Ingress + "/<client id>/<topic>"}
}

// Reserved reports whether a topic below a workspace begins with a level the
// broker keeps for itself.
func Reserved(topic string) bool {
	if topic == "" || topic[0] != '_' {
		return false
	}
	level, _, _ := strings.Cut(topic, "/")
	return level == Ingress || level == Alerts || level == Errors
}

// Workspace splits a full name into the workspace's slug and the part below it.
// ok is false if the name is of another version or one of the parts is empty.
func (g Grammar) Workspace(name string) (ws, rest string, ok bool) {
	version, rest, _ := strings.Cut(name, "/")
	if version != g.version() {
		return "", "", false
	}
	ws, rest, _ = strings.Cut(rest, "/")
	if ws == "" || rest == "" {
		return "", "", false
	}
	return ws, rest, true
}

// Inbox returns the name a client publishes a topic's values to.
func (g Grammar) Inbox(ws, client, topic string) string {
	return g.version() + "/" + ws + "/" + Ingress + "/" + client + "/" + topic
}

// Data returns the name of a topic's live copy.
func (g Grammar) Data(ws, topic string) string {
	return g.version() + "/" + ws + "/" + topic
}

// Alerts returns the name a topic's alerts go out on.
func (g Grammar) Alerts(ws, topic string) string {
	return g.version() + "/" + ws + "/" + Alerts + "/" + topic
}

// Errors returns the name a client's refusals go out on.
func (g Grammar) Errors(ws, client string) string {
	return g.version() + "/" + ws + "/" + Errors + "/" + client
}

func (g Grammar) version() string {
	if g.Version == "" {
		return DefaultVersion
	}
	return g.Version
}
