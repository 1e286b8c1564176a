package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"os"
	"time"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"clock":   func(t time.Time) string { return t.Local().Format("15:04:05") },
	"day":     func(t time.Time) string { return t.Local().Format("2006-01-02 15:04 MST") },
	"seconds": func(s float64) string { return fmt.Sprintf("%.1f s", s) },
	"between": func(a, b time.Time) string { return b.Sub(a).Round(time.Second).String() },
}).Parse(page))

// write leaves the report beside each other as a page and as JSON.
func (r *Report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.WriteFile(path+".json", text, 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, struct {
		*Report
		Picture template.HTML
		Broken  []Promise
		Unseen  int
	}{r, r.picture(), r.Broken(), r.unseen()}); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.WriteFile(path+".html", b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// print says the verdict in the terminal.
func (r *Report) print(out io.Writer, path string) {
	fmt.Fprintln(out)
	mark := map[string]string{kept: "✔ kept  ", broken: "✘ BROKEN", unseen: "– unseen"}
	for _, p := range r.Promises {
		fmt.Fprintf(out, "%s  %s\n", mark[p.Verdict], p.Text)
		for _, e := range p.Evidence {
			fmt.Fprintf(out, "            %s\n", e)
		}
	}
	if r.Interrupted {
		fmt.Fprintln(out, "\nInterrupted: what had not happened yet is not judged.")
	}
	fmt.Fprintf(out, "\nReport: %s.html, %s.json\n", path, path)
}
