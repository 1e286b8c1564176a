// Package lint_test holds the project's own rules, those no general linter knows:
// which package may import which (imports_test.go), what log lines begin with, how
// errors are wrapped, that tests do not sleep (source_test.go), that files stay
// readable and packages have their manual, and that the repository speaks of the
// product alone (files_test.go). Each failure says the rule and its reason.
package lint_test
