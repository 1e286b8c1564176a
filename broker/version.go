package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build: -ldflags "-X main.version=3.0.0".
var version = ""

// release is the version built in, or what the Go toolchain knows of the source.
func release() string {
	switch c := commit(); {
	case version != "":
		return version
	case c != "":
		return "unreleased-" + c
	}
	return "unreleased"
}

// commit is what the binary was built of, "" if the build was not told
// (-buildvcs=false, or no git).
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}

func versionCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this binary is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			name, of := version, commit()
			if name == "" {
				name = "unreleased"
			}
			if of == "" {
				of = "unknown"
			}
			_, err := fmt.Fprintf(out, "broker %s, commit %s, %s %s/%s\n", name, of, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
