package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestABodyIsReadAsStrictlyAsADevicesPayload(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeRead, ScopeWrite)
	one := func(value string) string { return `{"values": [` + value + `]}` }
	cases := []struct{ name, body, word string }{
		{"value twice", one(`{"topic": "a", "value": 1, "value": 2}`), `"values[0].value" is given twice`},
		{"values twice", `{"values": [{"topic": "a", "value": 1}], "values": [{"topic": "b", "value": 1}]}`, `"values" is given twice`},
		{"null first", one(`{"topic": "a", "value": null, "value": 2}`), "twice"},
		{"wrong case", `{"Values": [{"topic": "a", "value": 1}]}`, `unknown member "Values"`},
		{"wrong case within", one(`{"topic": "a", "value": 1}, {"TOPIC": "a", "value": 1}`), `unknown member "values[1].TOPIC"`},
		{"not UTF-8", one("{\"topic\": \"a\xff\", \"value\": 1}"), "not UTF-8"},
		{"not UTF-8 in a value", one("{\"topic\": \"a\", \"value\": \"\xff\"}"), "not UTF-8"},
		{"half a pair", one(`{"topic": "a\ud800", "value": 1}`), "surrogate"},
		{"the other half", one(`{"topic": "a\udc00b", "value": 1}`), "surrogate"},
		{"halves the wrong way round", one(`{"topic": "\udc00\ud800", "value": 1}`), "surrogate"},
		{"half a pair behind a backslash", one(`{"topic": "\\\ud800", "value": 1}`), "surrogate"},
		{"another shape", one(`{"topic": {"a": 1}, "value": 1}`), "topic"},
		{"no object", `[1]`, "array"},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			r.post(c, "/api/v1/uns/plant/values", k.body).want(t, 400, codeBody, k.word)
		})
	}
	var h page
	if r.get(c, "/api/v1/uns/plant/history").into(t, &h); len(h.Values) != 0 {
		t.Fatalf("history holds %d values, want none", len(h.Values))
	}
	for name, body := range map[string]string{
		"whole pair":        one(`{"topic": "\ud83d\ude00\\ud800", "value": 1}`),
		"U+FFFD itself":     one(`{"topic": "\ufffd\uFFFD�", "value": 1}`),
		"a value's members": one(`{"topic": "b", "value": {"A": 1, "a": {"Topic": "\ud800"}}}`),
	} {
		if a := r.post(c, "/api/v1/uns/plant/values", body); a.status != 200 {
			t.Errorf("%s: %d %s, want 200", name, a.status, a.body)
		}
	}
}

func TestABodyMustBePlainUTF8(t *testing.T) {
	r := newRig(t)
	c := r.client("press", "plant", ScopeWrite)
	body := `{"values": [{"topic": "a", "value": 1}]}`
	send := func(path, contentType, encoding, body string) answer {
		t.Helper()
		request, err := http.NewRequest("POST", r.url+path, strings.NewReader(body))
		fatal(t, err)
		request.Header.Set("Content-Type", contentType)
		if encoding != "" {
			request.Header.Set("Content-Encoding", encoding)
		}
		c.sign(request)
		response, err := http.DefaultClient.Do(request)
		fatal(t, err)
		defer response.Body.Close()
		a := answer{status: response.StatusCode, header: response.Header, body: readAllOf(t, response)}
		r.documented(request, a)
		return a
	}
	values, token := "/api/v1/uns/plant/values", "/api/v1/oauth2/token"
	send(values, "application/json; charset=latin1", "", body).want(t, 415, codeMediaType, "latin1", "utf-8")
	send(values, "application/json", "gzip", body).want(t, 415, codeMediaType, "gzip")
	for _, contentType := range []string{"application/json", "application/json; charset=UTF-8"} {
		if a := send(values, contentType, "identity", body); a.status != 200 {
			t.Errorf("%s: %d %s, want 200", contentType, a.status, a.body)
		}
	}
	form := "application/x-www-form-urlencoded"
	for _, k := range []struct{ contentType, encoding, body string }{
		{form + "; charset=latin1", "", "grant_type=client_credentials"},
		{form, "gzip", "grant_type=client_credentials"},
		{form, "", "grant_type=client_credentials&scope=%ff"},
	} {
		if a := send(token, k.contentType, k.encoding, k.body); a.status != 400 || !strings.Contains(string(a.body), invalidRequest) {
			t.Errorf("token with %+v: %d %s, want 400 %s", k, a.status, a.body, invalidRequest)
		}
	}
}
