package access

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrRefused: the credential is not valid, or no longer. It never says why.
	ErrRefused = errors.New("credential refused")
	// ErrThrottled: too many failures; the credential was not looked at. The
	// error is a *ThrottledError.
	ErrThrottled = errors.New("sign-in throttled")
	// ErrUnavailable: the credential could not be checked. It wraps the cause.
	ErrUnavailable = errors.New("credential check unavailable")
	// ErrScope: a token was asked for with a scope the client does not have.
	ErrScope = errors.New("scope not granted")

	// ErrNotFound, ErrExists and ErrInvalid are of the management of clients.
	ErrNotFound = errors.New("no such API client")
	ErrExists   = errors.New("API client exists")
	ErrInvalid  = errors.New("invalid API client")
)

// ThrottledError is how long a throttled sign-in has to wait.
type ThrottledError struct{ RetryAfter time.Duration }

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("%v: try again in %v", ErrThrottled, e.RetryAfter.Round(time.Second))
}

// Is makes every throttled sign-in an ErrThrottled.
func (e *ThrottledError) Is(target error) bool { return target == ErrThrottled }

func unavailable(doing string, cause error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, doing, cause)
}
