package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/config"
)

var rewrite = flag.Bool("rewrite", false, "write the expected files (testdata/bad/*.err, the reference in broker/README.md) anew")

// One file per rule, with the whole of its message beside it.
func TestABadFileIsRefusedSayingExactlyWhatIsWrong(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := config.Parse(data)
			if err == nil {
				t.Fatalf("accepted:\n%s", data)
			}
			if c != nil {
				t.Error("a configuration came with the error")
			}
			if !errors.As(err, new(*config.Error)) {
				t.Errorf("error is a %T", err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the message shows a secret: %v", err)
			}
			expected := strings.TrimSuffix(file, ".yaml") + ".err"
			if *rewrite {
				if err := os.WriteFile(expected, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, readErr := os.ReadFile(expected)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if got := err.Error() + "\n"; got != string(want) {
				t.Errorf("said\n%swant\n%s", got, want)
			}
		})
	}
}
