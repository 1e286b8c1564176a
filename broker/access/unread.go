package access

import (
	"fmt"
	"strings"

	"maestrohub.io/uns/broker/topic"
)

// grantsNamed bounds how many of a client's grants are named to it, grantBytes each of
// them: a Reason String is for a person.
const (
	grantsNamed = 5
	grantBytes  = 128
)

// Unread says, to whoever chose it, why a filter (without $share) matches nothing that may
// be read, and what may be subscribed to. It is for one of which ReadsAny is false.
func (g *Grants) Unread(filter string) string {
	r := g.rights
	version, rest, _ := strings.Cut(filter, "/")
	if version != r.version && version != "+" {
		return "does not begin with this broker's version; subscribe below " + r.prefix
	}
	workspace, rest, more := strings.Cut(rest, "/")
	switch {
	case workspace == "" || (workspace == r.workspace || workspace == "+") && (!more || rest == ""):
		return "ends above every value; subscribe below " + r.prefix
	case workspace != r.workspace && workspace != "+":
		return fmt.Sprintf("workspace %q is not this client's; subscribe below %s", clip(workspace), r.prefix)
	}
	switch level, _, _ := firstLevel(rest); level {
	case topic.Ingress:
		return "nobody reads an inbox; what is published to it comes on " + r.prefix + "<topic>"
	case topic.Errors:
		return fmt.Sprintf("client %q reads its own errors alone; subscribe to %s", r.id, r.prefix+topic.Errors+"/"+r.id)
	}
	return fmt.Sprintf("client %q may not read it; it may read %s", r.id, r.readable())
}

// readable names what the client's grants let it read.
func (r *rights) readable() string {
	var names []string
	for _, f := range r.subscribe {
		level, _, _ := firstLevel(f)
		if rest, ok := belowWorkspace(f, r.version, r.workspace); ok {
			f = rest
		} else if level == topic.Errors || level == topic.Ingress { // grants nothing
			continue
		}
		names = append(names, clip(r.prefix+f))
	}
	if len(names) == 0 {
		return r.prefix + topic.Errors + "/" + r.id + " alone"
	}
	if n := len(names) - grantsNamed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:grantsNamed], ", "), n)
	}
	return strings.Join(names, ", ")
}

// clip cuts a name that is too long to be told.
func clip(s string) string {
	if len(s) <= grantBytes {
		return s
	}
	return strings.ToValidUTF8(s[:grantBytes], "") + "…"
}
