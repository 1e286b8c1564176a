package jetstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"maestrohub.io/uns/broker/state"
)

// Error codes of the JetStream API, as in the server's
// jetstream_errors_generated.go.
const (
	codeAccountResources    = 10002
	codeNoPeers             = 10005 // not as many servers as copies: the description says why
	codeMessageNotFound     = 10037
	codeInsufficientStorage = 10047 // of the cluster
	codeMaximumStreams      = 10027
	codeStreamNotFound      = 10059
	codeStreamExists        = 10058 // with another configuration
	codeStoreFailed         = 10077
	codeMessageTooLarge     = 10054
	codeWrongLastSequence   = 10071 // names the last sequence
	codeDuplicateInProcess  = 10158
	codeWriteInProcess      = 10164 // of that subject: says nothing about the condition
	codeBatchIncomplete     = 10176
	codeBatchesInFlight     = 10210
)

// apiError is JetStream's refusal of a request.
type apiError struct {
	Status      int    `json:"code"`
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("JetStream: %s (%d)", e.Description, e.Code)
}

// lastSequence is the sequence a codeWrongLastSequence names.
func (e *apiError) lastSequence() (uint64, bool) {
	i := strings.LastIndexByte(e.Description, ' ')
	n, err := strconv.ParseUint(e.Description[i+1:], 10, 64)
	return n, err == nil
}

// publishAnswer is what comes back for a message to a stream.
type publishAnswer struct {
	Sequence  uint64    `json:"seq"`
	Duplicate bool      `json:"duplicate"`
	Error     *apiError `json:"error"`
}

// written is what became of a conditional write.
type written struct {
	sequence uint64 // it landed there
	// current is the subject's last sequence, if that is not the expected one.
	current  uint64
	conflict bool
	err      error // it did not land and will not
}

// judgeWrite returns a judge for a write that is conditional on the subject's
// last sequence being expected; negative: without a condition.
func judgeWrite(w *written, expected int64) func(m *nats.Msg) verdict {
	behind := 0
	return func(m *nats.Msg) verdict {
		var a publishAnswer
		if err := json.Unmarshal(m.Data, &a); err != nil {
			return unknown
		}
		if a.Error == nil {
			if a.Sequence == 0 {
				return unknown
			}
			// A duplicate landed earlier, which is all a write can say anyway.
			w.sequence = a.Sequence
			return settled
		}
		switch e := a.Error; {
		case e.Code == codeWrongLastSequence:
			n, ok := e.lastSequence()
			if !ok || expected < 0 {
				return refused
			}
			// Only a leader that was deposed, or a caller that made its
			// revision up, knows less than the caller.
			if behind++; n < uint64(expected) && behind < 4 {
				return refused
			}
			w.conflict, w.current = true, n
			return settled
		case e.Code == codeWriteInProcess, e.Code == codeDuplicateInProcess,
			e.Code == codeBatchIncomplete, e.Code == codeBatchesInFlight:
			return refused
		case e.quota():
			w.err = fmt.Errorf("%w: %w", state.ErrQuota, e)
			return settled
		case e.Code == codeMessageTooLarge, e.Status >= 400 && e.Status < 500:
			w.err = e
			return settled
		case e.Code == codeStoreFailed:
			return unknown // it was proposed: another copy may have kept it
		default:
			return refused
		}
	}
}

func (e *apiError) quota() bool {
	switch e.Code {
	case codeAccountResources, codeInsufficientStorage, codeMaximumStreams:
		return true
	case codeNoPeers:
		return strings.Contains(e.Description, "insufficient storage")
	case codeStoreFailed:
		return strings.Contains(e.Description, "maximum")
	}
	return false
}

// isCode says whether err is JetStream's with one of the codes.
func isCode(err error, codes ...int) bool {
	var e *apiError
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.Code == code {
			return true
		}
	}
	return false
}
