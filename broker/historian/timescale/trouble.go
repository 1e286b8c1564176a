package timescale

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"maestrohub.io/uns/broker/historian"
)

// verdict is what an error of a write means for what is done next.
type verdict int

const (
	fine       verdict = iota
	repeat             // doing it again may succeed at once
	reconnect          // another connection may do
	valueFault         // a value is the cause
	outage             // the database takes no writes now, or nobody waits any more
)

// PostgreSQL's error codes that are told apart (its manual, appendix A).
const (
	codeDiskFull     = "53100"
	codeReadOnly     = "25006"
	codeCheck        = "23514"
	codeSerialize    = "40001"
	codeDeadlock     = "40P01"
	codeCanceled     = "57014"
	codeNoTable      = "42P01"
	codeNoSchema     = "3F000"
	codeNoFeature    = "0A000" // a prepared statement whose table changed, among others
	codeNoStatement  = "26000" // a prepared statement that is not there
	codeNoPrivilege  = "42501"
	codeNoDatabase   = "3D000"
	codeConnections  = "53300"
	codeRaised       = "P0001"
	codeCardinality  = "21000"
	codeCheckOption  = "44000"
	classData        = "22"
	classConstraint  = "23"
	classProgram     = "54"
	classRule        = "42" // syntax errors, missing names and privileges
	classCredentials = "28"
	classStopping    = "57"
	classConnection  = "08"
)

// judge says what a write's error means. Class by class, so that a code nobody
// thought of is an outage, retried and reported, and never blamed on a value.
func judge(err error) verdict {
	if err == nil {
		return fine
	}
	if errors.Is(err, errRepeat) || missingPartition(err) {
		return repeat
	}
	var connecting *pgconn.ConnectError
	var wrong *unusable
	if errors.As(err, &connecting) || errors.As(err, &wrong) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, historian.ErrUnavailable) {
		return outage
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return reconnect // the connection broke
	}
	switch refused.Code {
	case codeSerialize, codeDeadlock:
		return repeat
	case codeReadOnly, codeNoTable, codeNoSchema, codeNoFeature, codeNoStatement:
		return reconnect
	case codeCanceled:
		return outage
	case codeRaised, codeCardinality, codeCheckOption:
		return valueFault
	}
	switch refused.Code[:min(2, len(refused.Code))] {
	case classData, classConstraint, classProgram:
		return valueFault
	case classStopping, classConnection:
		return reconnect
	}
	return outage
}

// missingPartition reports whether a row has no partition to go to. PostgreSQL gives
// it the code of a failed check constraint, but the name of none.
func missingPartition(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == codeCheck && refused.ConstraintName == ""
}

// unavailable puts an outage into words; what the database said, with its address and
// user, is for the log.
func (h *Historian) unavailable(err error) error {
	if err == nil || errors.Is(err, historian.ErrUnavailable) {
		return err
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == codeDiskFull {
		h.full.Store(true)
	}
	return &historian.Outage{Words: words(err), Cause: err}
}

func words(err error) string {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		var connecting *pgconn.ConnectError
		if errors.As(err, &connecting) {
			return "the database cannot be reached"
		}
		return "the connection to the database broke"
	}
	switch refused.Code {
	case codeDiskFull:
		return "the disk of the database server is full; free space on it or lower the historian's retention"
	case codeReadOnly:
		return "the database takes no writes: it is a standby or was made read-only; connect to the primary"
	case codeNoPrivilege:
		return "the database user lacks a privilege"
	case codeNoDatabase:
		return "the database does not exist"
	case codeConnections:
		return "the database has no connection left; raise its max_connections"
	case codeCanceled:
		return "the database took too long"
	}
	switch refused.Code[:min(2, len(refused.Code))] {
	case classCredentials:
		return "the database refuses the user or password"
	case classStopping:
		return "the database is stopping or starting"
	}
	return "the database refuses it"
}

// plain is what the person who sent a value has to know of the database's refusal.
func plain(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return err
	}
	text := refused.Message
	if refused.Detail != "" && !strings.HasPrefix(refused.Code, classConstraint) { // whose detail is the whole row
		text += ": " + refused.Detail
	}
	return fmt.Errorf("the database refuses it: %s (%s)", text, refused.Code)
}
