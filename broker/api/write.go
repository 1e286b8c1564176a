package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"maestrohub.io/uns/broker/ingest"
)

const maxWriteValues = 1000

// newValue is one value of a write. Pointers and raw JSON tell what was absent
// from what was null or zero.
type newValue struct {
	Topic         string          `json:"topic"`
	Value         json.RawMessage `json:"value"`
	Opaque        *string         `json:"opaque"`
	Timestamp     json.RawMessage `json:"timestamp"`
	Quality       json.RawMessage `json:"quality"`
	QoS           *int            `json:"qos"`
	ExpirySeconds *int64          `json:"expirySeconds"`
}

type writeResult struct {
	Topic string `json:"topic"`
	// Stored is nil where it is not known: the value may be stored.
	Stored  *bool  `json:"stored"`
	Cleared bool   `json:"cleared,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// write passes values through the same chain as a device's publish to the inbox
// of the calling client. The body is checked as a whole before the first value
// goes in: a typing error in the last one must not leave half a batch stored.
func (a *API) write(w http.ResponseWriter, r *http.Request, c caller) *refusal {
	workspace, refused := c.inWorkspace(r)
	if refused != nil {
		return refused
	}
	if q := newQuery(r); q.refused != nil {
		return q.refused
	}
	var body struct {
		Values []newValue `json:"values"`
	}
	if refused := readJSON(w, r, a.o.MaxWriteBytes, &body); refused != nil {
		return refused
	}
	if n := len(body.Values); n == 0 || n > maxWriteValues {
		return refuse(http.StatusBadRequest, codeBody, "values: %d of them; must be 1 to %d", n, maxWriteValues)
	}
	outcomes := newOutcomes(len(body.Values))
	publishes := make([]ingest.Publish, len(body.Values))
	for i, v := range body.Values {
		payload, refused := v.payload(i)
		if refused != nil {
			return refused
		}
		p := ingest.Publish{Name: a.inbox(workspace, c.id(), v.Topic), QoS: 1, Payload: payload, Grants: c.grants, Done: outcomes, Slot: uint64(i)}
		if v.QoS != nil {
			p.QoS = byte(*v.QoS)
		}
		if v.ExpirySeconds != nil {
			p.Expiry, p.HasExpiry = uint32(*v.ExpirySeconds), true
		}
		publishes[i] = p
	}
	a.o.Values.PublishBatch(publishes)
	wait := time.NewTimer(a.o.WriteWait)
	defer wait.Stop()
	select {
	case <-outcomes.done:
	case <-wait.C:
	case <-r.Context().Done(): // nobody is left to answer, but the values are on their way
	}
	a.answerWrite(w, body.Values, outcomes)
	return nil
}

func (a *API) inbox(workspace, client, topic string) string {
	return a.o.Grammar.Inbox(workspace, client, topic)
}

// payload builds what a device would have published: the bare value, or an
// envelope if there is a timestamp or quality to carry, or if the value itself
// would be taken for an envelope.
func (v *newValue) payload(i int) ([]byte, *refusal) {
	bad := func(format string, args ...any) ([]byte, *refusal) {
		return nil, refuse(http.StatusBadRequest, codeBody, "values[%d] "+format, append([]any{i}, args...)...)
	}
	if v.Topic == "" {
		return bad("topic: missing")
	}
	if v.QoS != nil && *v.QoS != 1 && *v.QoS != 2 {
		return bad("(topic %q) qos %d: must be 1 or 2", v.Topic, *v.QoS)
	}
	if v.ExpirySeconds != nil && (*v.ExpirySeconds < 1 || *v.ExpirySeconds > 1<<32-1) {
		return bad("(topic %q) expirySeconds %d: must be 1 to 4294967295", v.Topic, *v.ExpirySeconds)
	}
	switch {
	case v.Value != nil && v.Opaque != nil, v.Value == nil && v.Opaque == nil:
		return bad("(topic %q): must have exactly one of value and opaque", v.Topic)
	case v.Opaque != nil:
		if v.Timestamp != nil || v.Quality != nil {
			return bad("(topic %q): timestamp and quality go with value, not with opaque", v.Topic)
		}
		data, err := base64.StdEncoding.DecodeString(*v.Opaque)
		if err != nil {
			return bad("(topic %q) opaque: not base64: %v", v.Topic, err)
		}
		return data, nil
	case v.Timestamp == nil && v.Quality == nil && !looksLikeEnvelope(v.Value):
		return v.Value, nil
	}
	payload := append([]byte(`{"value":`), v.Value...)
	if v.Timestamp != nil {
		payload = append(append(payload, `,"timestamp":`...), v.Timestamp...)
	}
	if v.Quality != nil {
		payload = append(append(payload, `,"quality":`...), v.Quality...)
	}
	return append(payload, '}'), nil
}

func looksLikeEnvelope(raw json.RawMessage) bool {
	if raw[0] != '{' { // a raw message has no space around it
		return false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return false
	}
	_, ok := members["value"]
	return ok
}

// outcomes gathers the outcomes of one write. It is the Completion of its
// publishes; the lane calls it, the request reads it.
type outcomes struct {
	mu   sync.Mutex
	of   []ingest.Outcome // guarded by mu
	have []bool           // guarded by mu
	left int              // guarded by mu
	done chan struct{}    // closed when left reaches 0
}

func newOutcomes(n int) *outcomes {
	return &outcomes{of: make([]ingest.Outcome, n), have: make([]bool, n), left: n, done: make(chan struct{})}
}

// Complete takes the outcome of the value at index slot.
func (o *outcomes) Complete(slot uint64, outcome ingest.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.have[slot] {
		return
	}
	o.of[slot], o.have[slot] = outcome, true
	if o.left--; o.left == 0 {
		close(o.done)
	}
}

// Flush does nothing: the request waits for the last outcome, not for a batch.
func (o *outcomes) Flush() {}
