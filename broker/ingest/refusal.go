package ingest

// Refusal is why a publish was refused; the zero value means that it was not.
// What a connection or a request answers is theirs to choose: this package knows
// no MQTT reason codes.
type Refusal uint8

// Refusals at admission, which say something about the publish itself.
const (
	// NotInbox: the name is not an inbox of this grammar.
	NotInbox Refusal = iota + 1
	// TopicInvalid: the name is no topic name, or beyond the configured shape.
	TopicInvalid
	// OtherWorkspace: an inbox of a workspace that is not the client's, or that
	// does not exist. The two are not told apart.
	OtherWorkspace
	// OtherInbox: the inbox of another client.
	OtherInbox
	// NotGranted: the client may not publish to this topic.
	NotGranted
	// Payload: not a value.
	Payload
	// Schema: a value its topic's schema does not allow.
	Schema
	// Range: a value outside its topic's hard range.
	Range
	// Quality: a quality below what its topic asks for.
	Quality
	// TooLarge: more bytes than the topic allows, than one publish may have, or than
	// the workspace's session log can hold.
	TooLarge
	// TooOld: a timestamp older than the historian keeps.
	TooOld
)

// Refusals in the lane.
const (
	// Unstorable: the historian cannot store this value, whatever its state.
	Unstorable Refusal = iota + 64
	// HistorianUnavailable: the historian took no writes for a whole budget.
	HistorianUnavailable
	// HistorianQuarantined: given up on after repeated hung writes.
	HistorianQuarantined
	// NoRoom: the workspace's room stayed used up for AppendWait.
	NoRoom
	// LogTimeout: the session log did not take the value within AppendWait.
	LogTimeout
	// LogRefused: the session log can never hold the value, for a reason that
	// MaxRecordBytes does not know of. The value is stored.
	LogRefused
	// RetainedTimeout: the retained store did not take the value within AppendWait.
	RetainedTimeout
	// Shed: this replica is stopping. No acknowledgment need leave: the
	// connection ends, and the device sends the value to another life.
	Shed
)

var reasons = map[Refusal]string{
	NotInbox: "not_inbox", TopicInvalid: "topic_invalid", OtherWorkspace: "other_workspace",
	OtherInbox: "other_inbox", NotGranted: "not_granted", Payload: "payload", Schema: "schema",
	Range: "range", Quality: "quality", TooLarge: "too_large", TooOld: "too_old", Unstorable: "unstorable",
	HistorianUnavailable: "historian_unavailable", HistorianQuarantined: "historian_quarantined",
	NoRoom: "no_room", LogTimeout: "log_timeout", LogRefused: "log_refused",
	RetainedTimeout: "retained_timeout", Shed: "shed",
}

// Refusals lists every refusal, for metrics that are to exist before the first.
func Refusals() []Refusal {
	var all []Refusal
	for r := range Refusal(255) {
		if reasons[r] != "" {
			all = append(all, r)
		}
	}
	return all
}

// Reason returns the refusal's name as metrics, `_errors` and the reject feed
// carry it; "" for none.
func (r Refusal) Reason() string { return reasons[r] }

// String returns the reason, or "none".
func (r Refusal) String() string {
	if r == 0 {
		return "none"
	}
	return r.Reason()
}

// Passing reports whether the refusal says nothing about the value: time, not
// cause, decided, and the device should send it again, so nothing that came behind
// it may overtake it. It is what ends an Ordered connection: an MQTT 3 device has
// no other way to learn of it. Shed is not among them, as it ends everything.
func (r Refusal) Passing() bool {
	switch r {
	case HistorianUnavailable, NoRoom, LogTimeout, RetainedTimeout:
		return true
	}
	return false
}

// violation maps a model's rule to the refusal.
func violation(rule string) Refusal {
	switch rule {
	case "schema":
		return Schema
	case "range":
		return Range
	case "quality":
		return Quality
	case "size":
		return TooLarge
	}
	return Payload
}
