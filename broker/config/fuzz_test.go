package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/config"
)

// Whatever the file holds, it is either a configuration or an *Error with a message, never a panic.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("a: &a\n  b: *a\nmodules: *a\n"))
	f.Add([]byte("modules: &m\n  uns: &u {embeddedBroker: *u, <<: *m}\n"))
	f.Add([]byte("? [a, b]\n: c\n"))
	f.Add([]byte("modules: {uns: {oauth2: {issuers: &i [*i]}}}"))
	f.Add([]byte("\xff\xfem\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "_file") {
			return // would read files of this machine
		}
		c, err := config.Parse(data)
		var wrong *config.Error
		switch {
		case err == nil && c == nil:
			t.Error("neither a configuration nor an error")
		case err != nil && (c != nil || !errors.As(err, &wrong) || len(wrong.Violations) == 0 || err.Error() == ""):
			t.Errorf("error %#v with %v", err, c)
		}
	})
}
