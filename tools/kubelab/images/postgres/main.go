// Command postgres is the entry point of the PostgreSQL image: on an empty volume it
// makes the database first, then it becomes the server, which takes connections from
// everywhere with a password.
//
// The environment is named as the official image's: POSTGRES_PASSWORD or
// POSTGRES_PASSWORD_FILE (one of them is needed on an empty volume), POSTGRES_USER
// (postgres), POSTGRES_DB (as the user), PGDATA. Arguments go to the server.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "postgres image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	data := os.Getenv("PGDATA")
	if data == "" {
		return errors.New("PGDATA must name the folder of the data")
	}
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); errors.Is(err, fs.ErrNotExist) {
		if err := create(data); err != nil {
			return err
		}
	}
	server, err := exec.LookPath("postgres")
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "postgres" { // as a command for the official image begins
		args = args[1:]
	}
	return syscall.Exec(server, append([]string{"postgres", "-D", data, "-c", "listen_addresses=*", "-c", "unix_socket_directories=/tmp"}, args...), os.Environ())
}

// create makes the database beside its place and moves it there when it is whole, so
// that a start that is interrupted leaves nothing that looks finished.
func create(data string) error {
	password, err := secret("POSTGRES_PASSWORD")
	if err != nil {
		return err
	}
	if password == "" {
		return errors.New("POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE must be given on an empty volume")
	}
	user := or(os.Getenv("POSTGRES_USER"), "postgres")
	database := or(os.Getenv("POSTGRES_DB"), user)
	fresh := data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	file := data + ".password"
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(file)
	initdb := exec.Command("initdb", "-D", fresh, "-U", user, "--pwfile="+file,
		"--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C")
	initdb.Stdout, initdb.Stderr = os.Stdout, os.Stderr
	if err := initdb.Run(); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	if database != "postgres" {
		single := exec.Command("postgres", "--single", "-D", fresh, "postgres")
		single.Stdin = strings.NewReader(`CREATE DATABASE "` + strings.ReplaceAll(database, `"`, `""`) + "\"\n")
		single.Stdout, single.Stderr = os.Stdout, os.Stderr
		if err := single.Run(); err != nil {
			return fmt.Errorf("create database %s: %w", database, err)
		}
	}
	rules := filepath.Join(fresh, "pg_hba.conf")
	existing, err := os.ReadFile(rules)
	if err != nil {
		return err
	}
	if err := os.WriteFile(rules, append(existing, "host all all all scram-sha-256\n"...), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, data)
}

// secret is an environment variable, or the content of the file that <name>_FILE
// names.
func secret(name string) (string, error) {
	path := os.Getenv(name + "_FILE")
	if path == "" {
		return os.Getenv(name), nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", name, err)
	}
	return strings.TrimRight(string(content), "\n"), nil
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
