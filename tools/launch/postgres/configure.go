package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// configure writes the server's settings. What is not named keeps PostgreSQL's
// default, durability (fsync, synchronous_commit, full_page_writes) above all.
func (s *Server) configure(o Options) error {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(s.port),
		"unix_socket_directories": s.dir,
		"log_destination":         "stderr",
		"logging_collector":       "off",
	}
	for name, v := range o.Settings {
		settings[name] = v
	}
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	sort.Strings(names)
	var conf strings.Builder
	for _, name := range names {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	files := map[string][]byte{
		// Read after postgresql.conf, so initdb's defaults stay below these.
		"postgresql.auto.conf": []byte(conf.String()),
		"pg_hba.conf": []byte(strings.Join(append(append([]string(nil), o.HBA...),
			"local all all trust", "host all all 127.0.0.1/32 trust", "local replication all trust", "host replication all 127.0.0.1/32 trust"), "\n") + "\n"),
	}
	for name, content := range o.Files {
		files[name] = content
	}
	for name, content := range files {
		path := filepath.Join(s.data(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := s.account.own(path); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
