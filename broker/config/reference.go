package config

import "strings"

// Reference is every setting as a Markdown table: key, default, accepted values, unit, meaning.
func Reference() string {
	var b strings.Builder
	b.WriteString("| Key | Default | Accepted | Unit | Meaning |\n|---|---|---|---|---|\n")
	for _, s := range settings() {
		key := below(root, s.key)
		line(&b, key, s.initial, s.allowed, s.unit, s.doc)
		if s.secret {
			line(&b, key+"_file", "", "a path", "", "File that holds "+"`"+s.key+"`"+".")
		}
		for _, e := range s.rows {
			line(&b, key+"[]."+e.key, e.initial, e.allowed, e.unit, e.doc)
		}
	}
	return b.String()
}

func line(b *strings.Builder, key, initial, allowed, unit, doc string) {
	code := func(s string) string {
		if s == "" {
			return "–"
		}
		return "`" + s + "`"
	}
	cells := []string{code(key), code(initial), allowed, unit, doc}
	for i, c := range cells {
		if c == "" {
			c = "–"
		}
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
