package contract

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Readme is a README.md with the table of values as it should be. The table alone is generated; the rest of the page is
// written.
func Readme(path string, values *Value) ([]byte, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	head, rest, hasBegin := strings.Cut(string(page), "<!-- values:begin -->\n")
	_, tail, hasEnd := strings.Cut(rest, "<!-- values:end -->")
	if !hasBegin || !hasEnd {
		return nil, fmt.Errorf("%s has no place for the values", path)
	}
	return []byte(head + "<!-- values:begin -->\n" + ReadmeTable(values) + "<!-- values:end -->" + tail), nil
}

// ReadmeTable is every value of an annotated values.yaml as Markdown: a table for
// each section, one row a value.
func ReadmeTable(values *Value) string {
	var b strings.Builder
	sections := slices.DeleteFunc(slices.Clone(values.Children), func(v *Value) bool { return len(v.Children) == 0 })
	rest := &Value{Path: "other", Doc: "What belongs to no part."}
	for _, v := range values.Children {
		if len(v.Children) == 0 {
			rest.Children = append(rest.Children, v)
		}
	}
	for _, section := range append(sections, rest) {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", section.Name(), section.Doc)
		b.WriteString("| Value | Default | Accepted | Meaning |\n|---|---|---|---|\n")
		section.Walk(func(v *Value) {
			if len(v.Children) > 0 {
				return
			}
			cells := []string{"`" + v.Path + "`", v.shown(), v.accepted(), v.Doc}
			for i, c := range cells {
				cells[i] = strings.ReplaceAll(or(c, "–"), "|", `\|`)
			}
			b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		})
	}
	return b.String()
}

// shown is the default as it would be written on one line.
func (v *Value) shown() string {
	n := *v.Default
	n.Style = yaml.FlowStyle
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	flow(&n)
	out, err := yaml.Marshal(&n)
	text := strings.Join(strings.Fields(string(out)), " ")
	if err != nil || text == "" {
		return ""
	}
	return "`" + text + "`"
}

func flow(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	if n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		flow(c)
	}
}

// texts are, in words, what stands beside numbers.
var texts = map[string]string{
	`^[1-9][0-9]*(Mi|Gi|Ti)$`:   "a size such as 10Gi",
	`^([1-9]|[1-9][0-9]|100)%$`: "a share such as 50%",
}

// number is the range of the numbers that the schema takes.
func (v *Value) number() string {
	low, hasLow := v.Schema["minimum"].(float64)
	high, hasHigh := v.Schema["maximum"].(float64)
	switch {
	case hasLow && hasHigh && low == high:
		return fmt.Sprintf("%.0f", low)
	case hasLow && hasHigh:
		return fmt.Sprintf("%.0f to %.0f", low, high)
	case hasLow:
		return fmt.Sprintf("%.0f or more", low)
	}
	return ""
}

// accepted says in words what the schema says.
func (v *Value) accepted() string {
	switch {
	case v.IsPort():
		return "1 to 65535"
	case v.Config != nil && v.Schema["enum"] == nil:
		return v.Config.Accepted
	case v.Kubernetes != "":
		element, list := strings.CutSuffix(v.Kubernetes, "[]")
		if list {
			return "list of " + element
		}
		return element
	}
	if words, ok := v.Schema["enum"].([]any); ok {
		all := make([]string, len(words))
		for i, w := range words {
			all[i] = strings.Trim(fmt.Sprint(w), "<>") // <nil>
			switch w {
			case nil:
				all[i] = "null"
			case "":
				all[i] = `""`
			}
		}
		return strings.Join(all, ", ")
	}
	if number := v.number(); number != "" {
		// Beside a number, a text: the number's range alone would deny it.
		if pattern, ok := v.Schema["pattern"].(string); ok {
			return number + ", or " + texts[pattern]
		}
		return number
	}
	if v.Default.Tag == "!!bool" {
		return "true, false"
	}
	return ""
}
