package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"maestrohub.io/uns/broker/access"
)

// The errors of RFC 6749, section 5.2, as far as client credentials know them.
// temporarily_unavailable is section 4.1.2.1's, the closest the RFC has to a
// throttle or a store that does not answer.
const (
	invalidRequest         = "invalid_request"
	invalidClient          = "invalid_client"
	invalidScope           = "invalid_scope"
	unsupportedGrantType   = "unsupported_grant_type"
	temporarilyUnavailable = "temporarily_unavailable"
)

type tokenResponse struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string `json:"scope"`
}

type tokenError struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// token is the OAuth2 token endpoint, client credentials only (RFC 6749, 4.4).
func (a *API) token(w http.ResponseWriter, r *http.Request) {
	form, ok := tokenForm(w, r)
	if !ok {
		return
	}
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	default:
		w.Header().Set("Retry-After", retryAfter(retrySoon))
		failToken(w, http.StatusServiceUnavailable, temporarilyUnavailable, "too many requests are being served")
		return
	}
	a.grantToken(w, r, form)
}

func (a *API) grantToken(w http.ResponseWriter, r *http.Request, form url.Values) {
	id, secret, ok := tokenCredentials(w, r, form)
	if !ok {
		return
	}
	switch grant := form.Get("grant_type"); grant {
	case "client_credentials":
	case "":
		failToken(w, http.StatusBadRequest, invalidRequest, "grant_type is missing; it must be client_credentials")
		return
	default:
		failToken(w, http.StatusBadRequest, unsupportedGrantType, "grant_type must be client_credentials")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), signInBound)
	defer cancel()
	t, err := a.o.Access.Token(ctx, id, secret, form.Get("scope"), a.remote(r))
	if err != nil && !errors.Is(err, access.ErrScope) {
		a.countFailure(err)
	}
	var throttled *access.ThrottledError
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, tokenResponse{AccessToken: t.AccessToken, TokenType: "Bearer", ExpiresIn: int64(t.ExpiresIn / time.Second), Scope: t.Scope})
	case errors.Is(err, access.ErrScope):
		failToken(w, http.StatusBadRequest, invalidScope, "the client does not have every scope it asks for: "+described(form.Get("scope")))
	case errors.As(err, &throttled):
		w.Header().Set("Retry-After", retryAfter(throttled.RetryAfter))
		failToken(w, http.StatusTooManyRequests, temporarilyUnavailable, "too many failed sign-ins; wait as Retry-After says")
	case errors.Is(err, access.ErrRefused):
		w.Header().Set("WWW-Authenticate", `Basic realm="`+realm+`", charset="UTF-8"`)
		failToken(w, http.StatusUnauthorized, invalidClient, "no such client, or not its secret")
	default:
		w.Header().Set("Retry-After", retryAfter(retrySoon))
		failToken(w, http.StatusServiceUnavailable, temporarilyUnavailable, "credentials cannot be checked now")
	}
}

// tokenForm reads the form from the body; a query is never looked at, so that no
// secret ends up in a proxy's log by way of this endpoint.
func tokenForm(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	if err := bodyType(r, "application/x-www-form-urlencoded"); err != nil {
		failToken(w, http.StatusBadRequest, invalidRequest, err.Error())
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		failToken(w, http.StatusBadRequest, invalidRequest, "the body cannot be read, or is larger than 64 KiB")
		return nil, false
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		failToken(w, http.StatusBadRequest, invalidRequest, "the body is not a form")
		return nil, false
	}
	for name, values := range form {
		if !utf8.ValidString(values[0]) {
			failToken(w, http.StatusBadRequest, invalidRequest, "a parameter is not UTF-8")
			return nil, false
		}
		if len(values) > 1 { // RFC 6749, 3.2: parameters must not be included more than once
			failToken(w, http.StatusBadRequest, invalidRequest, "a parameter is given more than once")
			return nil, false
		}
		if values[0] == "" { // RFC 6749, 3.2: sent without a value counts as omitted
			delete(form, name)
		}
	}
	return form, true
}

// tokenCredentials takes the id and secret from HTTP Basic or from the form, and
// refuses both at once (RFC 6749, 2.3). In Basic they are form-encoded first
// (2.3.1): a secret made by the broker looks the same either way.
func tokenCredentials(w http.ResponseWriter, r *http.Request, form url.Values) (id, secret string, ok bool) {
	id, secret = form.Get("client_id"), form.Get("client_secret")
	basicID, basicSecret, basic := r.BasicAuth()
	if basic {
		if secret != "" {
			failToken(w, http.StatusBadRequest, invalidRequest, "credentials both in the Authorization header and in the form; send them once")
			return "", "", false
		}
		var errID, errSecret error
		basicID, errID = url.QueryUnescape(basicID)
		basicSecret, errSecret = url.QueryUnescape(basicSecret)
		if errID != nil || errSecret != nil {
			failToken(w, http.StatusBadRequest, invalidRequest, "the credentials in the Authorization header are not form-encoded (RFC 6749, 2.3.1)")
			return "", "", false
		}
		if id != "" && id != basicID {
			failToken(w, http.StatusBadRequest, invalidRequest, "client_id differs from that of the Authorization header")
			return "", "", false
		}
		id, secret = basicID, basicSecret
	}
	if id == "" || secret == "" {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+realm+`", charset="UTF-8"`)
		failToken(w, http.StatusUnauthorized, invalidClient, "client id and secret are missing; send them in HTTP Basic or as client_id and client_secret")
		return "", "", false
	}
	return id, secret, true
}

func failToken(w http.ResponseWriter, status int, code, description string) {
	writeJSON(w, status, tokenError{Error: code, Description: description})
}

// described is a text as an error_description may have it [RFC 6749 5.2].
func described(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' {
			return -1
		}
		return r
	}, text)
}
