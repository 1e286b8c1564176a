package postgres

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// children returns the ids of a process's children. PostgreSQL puts each of its
// processes in a session of its own, so the process group does not have them.
func children(parent int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil // the pattern is well-formed
	}
	var found []int
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if ppid, _, ok := stat(pid); ok && ppid == parent {
			found = append(found, pid)
		}
	}
	return found
}

// alive reports whether a process still runs; a zombie does not.
func alive(pid int) bool {
	_, state, ok := stat(pid)
	return ok && state != "Z" && state != "X"
}

// stat reads the parent and the state of a process; ok is false if it is gone.
func stat(pid int) (parent int, state string, ok bool) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, "", false
	}
	// pid (name, which may hold anything) state ppid ...
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 2 {
		return 0, "", false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, string(fields[0]), err == nil
}
