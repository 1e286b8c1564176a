package historian

import (
	"errors"
	"fmt"
)

// ErrUnavailable is wrapped by the error of a store that cannot take or give
// values now: full, read-only, damaged, closed. The rest of the message says which
// and what to do (Outage).
var ErrUnavailable = errors.New("historian unavailable")

// ErrQuery is wrapped by the error of a query that no state of the store could
// answer: a malformed filter, an empty range, a cursor of another query.
var ErrQuery = errors.New("invalid history query")

// ValueError says that one value is the reason a batch was refused.
type ValueError struct {
	// Index of the value in the batch.
	Index int
	Err   error
}

func (e *ValueError) Error() string { return fmt.Sprintf("value %d of the batch: %v", e.Index, e.Err) }

func (e *ValueError) Unwrap() error { return e.Err }
