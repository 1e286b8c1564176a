package config_test

import (
	"strings"
	"testing"

	"maestrohub.io/uns/broker/config"
)

func TestRowsSayWhatTheParserAccepts(t *testing.T) {
	for _, row := range config.Rows() {
		if row.Key == "" || row.Meaning == "" {
			t.Errorf("%+v: a setting has a key and a meaning", row)
		}
		form := row.Form
		switch form.Sort {
		case config.Count, config.Duration, config.Bytes:
			if form.Low >= form.High {
				t.Errorf("%s: range %d to %d", row.Key, form.Low, form.High)
			}
			if form.Zero != strings.Contains(row.Accepted, "or 0 (") {
				t.Errorf("%s: zero accepted: %v, in words: %s", row.Key, form.Zero, row.Accepted)
			}
		case config.Word:
			if want := strings.Join(form.Words, ", "); !strings.HasSuffix(row.Accepted, want) {
				t.Errorf("%s: words %s, in words: %s", row.Key, want, row.Accepted)
			}
		}
		if row.Key == "oauth2.issuers" && (!form.List || len(row.Elements) == 0) {
			t.Errorf("%s: has no elements", row.Key)
		}
	}
}
