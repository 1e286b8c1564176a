package historian

import (
	"context"

	"maestrohub.io/uns/broker/value"
)

// Historian stores values and reads them back. All methods may be called at the
// same time from any goroutine.
type Historian interface {
	// Append stores a batch. nil means every value is durable, and Position of
	// each is set; on an error no Position is changed. Otherwise the error is a
	// *ValueError (one value is the cause, nothing of the batch is stored), wraps
	// ErrUnavailable (the store cannot take writes now), or is the context's: the
	// store did not answer in time and the batch may yet be stored. The same batch
	// may be appended again after any of them. The values must not change while
	// Append runs, nor after it returned the context's error.
	Append(ctx context.Context, values []*value.Value) error
	// Read returns one page of rows. An error of the query itself wraps ErrQuery.
	Read(ctx context.Context, q Query) (Page, error)
	// Check reports whether an Append could succeed now: nil, an error wrapping
	// ErrUnavailable, or the context's error if the store does not answer.
	Check(ctx context.Context) error
	// Close waits for the appends that were accepted and releases the store. Later
	// calls wrap ErrUnavailable.
	Close() error
}

// Limits of a page: what a Query without a limit gets, and the most one may ask
// for. A page is also ended early when its rows hold PageBytes.
const (
	DefaultLimit = 1000
	MaxLimit     = 10_000
	PageBytes    = 32 << 20
)

// Query asks for rows of one workspace.
type Query struct {
	// Workspace is the slug.
	Workspace string
	// Topic is a topic below the workspace, or a filter with + and #.
	Topic string
	// From and To bound the timestamps, nanoseconds since the Unix epoch: From is
	// included, To is not. To must be greater than From.
	From, To int64
	// Newest returns the newest row first.
	Newest bool
	// Limit is the greatest number of rows of the page: 0 means DefaultLimit, more
	// than MaxLimit means MaxLimit.
	Limit int
	// After is the Next of the page before, with the rest of the query unchanged;
	// empty for the first page.
	After string
	// Visible says whether the reader may see a topic; nil means all of them. It is
	// asked once per topic and page.
	Visible func(topic string) bool
}

// Row is one stored value.
type Row struct {
	// Topic is the part of the name below the workspace.
	Topic, Publisher string
	// Timestamp and Received are nanoseconds since the Unix epoch; see value.Value.
	Timestamp, Received int64
	Timed               bool
	Quality             value.Quality
	Kind                value.Kind
	Body                []byte
	Position            uint64
}

// Page is one page of rows, in the order of their timestamps. Rows of one topic
// with the same timestamp keep one order, which is the implementation's.
type Page struct {
	Rows []Row
	// Next is the cursor of the page after this one, empty if there is none.
	Next string
}
