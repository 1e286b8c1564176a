package access

import (
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/broker/topic"
)

// Grants are what one sign-in may do, until Deadline. Immutable; all methods but
// ReadsAll and ReadsAny, which are for SUBSCRIBE, allocate nothing.
type Grants struct {
	rights     *rights
	credential credential
	deadline   time.Time
	scopes     []string
}

// rights are a client's permissions, compiled once per change of the client.
type rights struct {
	id, workspace string
	version       string
	prefix        string // <version>/<workspace>/
	scopes        []string
	subscribe     []string // as given
	publish       filters
	data          filters // data topics
	alerts        filters // what is granted of _alerts alone
}

func newRights(c *Client, g topic.Grammar) *rights {
	version := g.Version
	if version == "" {
		version = topic.DefaultVersion
	}
	r := &rights{id: c.ID, workspace: c.Workspace, version: version, prefix: version + "/" + c.Workspace + "/", scopes: c.Scopes, subscribe: c.Subscribe}
	for _, f := range c.Publish {
		r.publish.add(f)
	}
	for _, f := range c.Subscribe {
		r.addRead(f)
		if rest, ok := belowWorkspace(f, version, c.Workspace); ok && rest != f {
			r.addRead(rest)
		}
	}
	return r
}

// addRead takes in a filter on the part below the workspace. One that begins with
// a reserved level grants nothing of the data topics.
func (r *rights) addRead(filter string) {
	level, rest, more := firstLevel(filter)
	switch level {
	case topic.Alerts:
		if more {
			r.alerts.add(rest)
		}
	case topic.Errors, topic.Ingress:
	default:
		r.data.add(filter)
	}
}

// GrantsFor returns the grants of a client that may publish and read everything
// in its workspace, with no scope and no deadline: for what acts in a client's
// name without a credential of its own.
func GrantsFor(clientID, workspace string) *Grants {
	c := Client{ID: clientID, Workspace: workspace}
	c.complete()
	return &Grants{rights: newRights(&c, topic.Grammar{})}
}

// ClientID is the API client's id: the user name, and the name of its inbox.
func (g *Grants) ClientID() string { return g.rights.id }

// Workspace is the slug of the client's workspace.
func (g *Grants) Workspace() string { return g.rights.workspace }

// Deadline is until when the grants hold unless Renew renews them; zero: for
// good.
func (g *Grants) Deadline() time.Time { return g.deadline }

// Scope says whether a REST scope is granted. A token has at most the scopes it
// was issued for.
func (g *Grants) Scope(s string) bool { return slices.Contains(g.scopes, s) }

// MayPublish says whether the topic, the part below the client's inbox, may be
// published to.
func (g *Grants) MayPublish(topic string) bool { return g.rights.publish.match(topic) }

// MayRead says whether the full name may be delivered. Reads never leave the own
// workspace; of the reserved levels, _ingress is never read, _errors only its own,
// and _alerts/<topic> follows the grant on <topic>.
func (g *Grants) MayRead(name string) bool {
	r := g.rights
	rest, own := strings.CutPrefix(name, r.prefix)
	if !own {
		return false
	}
	if rest == "" || rest[0] != '_' {
		return r.data.match(rest)
	}
	level, below, more := firstLevel(rest)
	switch level {
	case topic.Errors:
		return more && below == r.id
	case topic.Alerts:
		return more && (r.data.match(below) || r.alerts.match(below))
	case topic.Ingress:
		return false
	default:
		return r.data.match(rest)
	}
}

// ReadsAll says whether everything a filter (without $share) matches may be
// read, so that its deliveries need no check of their own. False is always safe.
func (g *Grants) ReadsAll(filter string) bool {
	r := g.rights
	rest, own := strings.CutPrefix(filter, r.prefix)
	if !own {
		return false
	}
	level, below, more := firstLevel(rest)
	switch level {
	case "+", "#":
		return false // _errors of others
	case topic.Errors:
		return more && below == r.id
	case topic.Alerts:
		return more && (r.data.covers(below) || r.alerts.covers(below))
	case topic.Ingress:
		return false
	default:
		return r.data.covers(rest)
	}
}

// ReadsAny says whether a filter (without $share) matches anything that may be
// read. True for a filter of which nothing exists yet.
func (g *Grants) ReadsAny(filter string) bool {
	r := g.rights
	rest, own := belowWorkspace(filter, r.version, r.workspace)
	if !own {
		return false
	}
	level, below, more := firstLevel(rest)
	ownErrors := topic.Errors + "/" + r.id
	switch level {
	case topic.Errors:
		return topic.MatchBelow(rest, ownErrors)
	case topic.Alerts:
		return more && (r.data.intersects(below) || r.alerts.intersects(below))
	case topic.Ingress:
		return false
	case "+", "#":
		if topic.MatchBelow(rest, ownErrors) {
			return true
		}
		alerts := below
		if level == "#" {
			alerts = "#"
		}
		if (more || level == "#") && (r.data.intersects(alerts) || r.alerts.intersects(alerts)) {
			return true
		}
		return r.data.intersects(rest)
	default:
		return r.data.intersects(rest)
	}
}
