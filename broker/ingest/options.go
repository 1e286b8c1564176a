package ingest

import (
	"context"
	"log/slog"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/metrics"
	"maestrohub.io/uns/broker/model"
	"maestrohub.io/uns/broker/state"
	"maestrohub.io/uns/broker/topic"
	"maestrohub.io/uns/broker/value"
)

// Live takes the live copies of stored values, and alerts and errors, to
// whoever subscribes now. Calls for one workspace come one after the other, in
// lane order; those for different workspaces come at once. Neither method blocks
// or calls into Ingest. The slice is ingest's again after the call, the values
// are shared.
type Live interface {
	Deliver(batch []*value.Value)
	// Flush follows one or more Delivers.
	Flush()
}

// Audience is implemented by a Live that can say whether anybody would get a
// value; it is what Outcome.NoSubscribers comes from.
type Audience interface {
	Audience(v *value.Value) bool
}

// Wanted says what the session log must hold.
type Wanted interface {
	// Wanted reports whether a persistent session wants the value at its QoS. The
	// first call for a value comes before anything else sees it after the
	// historian, and may choose its Shares; later ones must not.
	Wanted(v *value.Value) bool
	// Generation changes with every change of what Wanted says.
	Generation() uint64
}

// Logs opens the session log of a workspace; state.Store is one.
type Logs interface {
	Log(ctx context.Context, workspaceID string) (state.Log, error)
}

// Retained keeps the last value of retaining topics; *retained.Retained is one.
type Retained interface {
	Put(ctx context.Context, values []*value.Value) error
}

// Options of an Ingest. The first group is needed; a zero in the second means
// the default.
type Options struct {
	Grammar topic.Grammar
	// Model returns the model in force: (*model.File).Current.
	Model     func() *model.Model
	Historian historian.Historian
	Logs      Logs
	Retained  Retained
	Live      Live
	Wanted    Wanted
	Metrics   *metrics.Metrics
	Logger    *slog.Logger

	// MayAct says whether this replica may have an effect now: (*cluster.Deadline)'s
	// of the incarnation in force. It is read immediately before every log append,
	// retained put, live delivery and acknowledgment, and at Publish. It must be cheap,
	// take no lock and never turn true again but for a new incarnation, after Fence. nil: always.
	MayAct func() bool

	// LiveQoS is the lowest QoS of a live copy (liveMirror.qos): 0 or 1.
	LiveQoS byte
	// MaxTopicBytes and MaxTopicLevels bound the topic name as published; 0: no bound.
	MaxTopicBytes, MaxTopicLevels int
	// MaxAge is how old a timestamp the historian still keeps: an older value would
	// never be read, and is refused. 0: any.
	MaxAge time.Duration
	// MaxPayloadBytes bounds a payload whatever it came by; a topic may allow less.
	// 0: no bound.
	MaxPayloadBytes int
	// MaxRecordBytes is the largest encoded record every session log takes
	// (value.AppendRecord), so that no value is stored that a log refuses. 0: no bound.
	MaxRecordBytes int64

	// AppendWait is how long a publish waits for room, and a stored value for the
	// session log or the retained store, before it is refused. Default 10 s.
	AppendWait time.Duration
	// StoreBudget is how long after admission a value is offered again to a
	// historian that fails. Default 30 s.
	StoreBudget time.Duration
	// HungWrite is how long one historian write may take before it counts as hung
	// and its values are written again. Default 10 s.
	HungWrite time.Duration
	// QuarantineAfter hung writes of a value, that value is given up on. Default 3.
	QuarantineAfter int
	// Room bounds the bytes of a workspace's values between Publish and outcome.
	// Default 64 MiB.
	Room int
	// BatchValues and BatchBytes bound one historian write. Default 4096 and 4 MiB.
	BatchValues, BatchBytes int
	// RejectsKept is how many refusals a workspace's reject feed holds. Default 1000.
	RejectsKept int
}

const (
	// hungInFlight bounds the writes of one lane that were given up on and have
	// not returned; each holds a goroutine and its batch.
	hungInFlight = 4
	// entryBytes is what an entry costs beside its variable parts.
	entryBytes = 640
	// backoff between two tries of a failing store.
	firstBackoff, lastBackoff = 20 * time.Millisecond, time.Second
)

func (o Options) withDefaults() Options {
	if o.AppendWait <= 0 {
		o.AppendWait = 10 * time.Second
	}
	if o.StoreBudget <= 0 {
		o.StoreBudget = 30 * time.Second
	}
	if o.HungWrite <= 0 {
		o.HungWrite = 10 * time.Second
	}
	if o.QuarantineAfter <= 0 {
		o.QuarantineAfter = 3
	}
	if o.Room <= 0 {
		o.Room = 64 << 20
	}
	if o.BatchValues <= 0 {
		o.BatchValues = 4096
	}
	if o.BatchBytes <= 0 {
		o.BatchBytes = 4 << 20
	}
	if o.RejectsKept <= 0 {
		o.RejectsKept = 1000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// backoffAfter returns how long to wait after the n-th failure in a row, n from 0.
func backoffAfter(n int) time.Duration {
	return min(firstBackoff<<min(n, 10), lastBackoff)
}
