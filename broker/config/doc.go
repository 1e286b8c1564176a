// Package config is config.yaml as Go values: what an operator may set, what each setting means and
// which values are accepted.
//
// Everything known about a setting (its key, default, range, unit and meaning) stands once, in the
// table of settings.go and settings_limits.go. The defaults, the checks, the messages, the key
// suggestions and the reference in broker/README.md (Reference) all come from there.
//
// The life of a configuration:
//
//  1. Load reads the file, or Parse the bytes; Default is what an empty file means.
//  2. Every key of the file must be in the table. A key set to null, or left out, keeps its default.
//     Durations are written "10s", "1h30m", "7d"; sizes "64KiB", "256 MiB", or plain bytes. A path
//     written in the file counts from the file's own directory.
//  3. A secret may be written in the file, or as <key>_file naming a file that holds it (a mounted
//     Kubernetes Secret); never both. A Secret value does not print.
//  4. The rules between settings (rules.go) are checked.
//  5. Everything that is wrong is reported at once, as an *Error: each violation has the line, the key,
//     the value and what is accepted. No configuration is returned then.
//
// A Config is read at start and never changes; what a running broker picks up (the model, the clients,
// certificates) are files of their own, named here.
package config
