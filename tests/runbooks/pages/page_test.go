package pages

import (
	"fmt"
	"strings"
	"testing"
)

func TestWhoRunsABlock(t *testing.T) {
	page := strings.ReplaceAll(`---
key: value
---
# Title
<!-- run by TestAll -->

~~~sh change
one
~~~

## A

1. In a list.

   ~~~sh look
   two
     indented
   ~~~

### B
<!-- run by TestB -->

~~~yaml
three
~~~

~~~sh skip=needs-a-person
four
~~~

## C

~~~log
five
~~~

~~~sh run
six
~~~

# Another

~~~sh look
seven
~~~

~~~sh
eight
~~~
`, "~~~", "```")
	p, err := parse("x.md", page)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, b := range p.Blocks {
		fmt.Fprintf(&got, "%d %q %v %s|%s %q\n", b.Line, b.Info, b.Sections, b.Test, b.Skip, b.Text)
	}
	want := `7 "sh change" [Title] TestAll| "one\n"
15 "sh look" [Title A] TestAll| "two\n  indented\n"
23 "yaml" [Title A B] TestB| "three\n"
27 "sh skip=needs-a-person" [Title A B] |needs a person "four\n"
33 "log" [Title C] TestLogLinesThatAreQuotedExist| "five\n"
37 "sh run" [Title C] TestAll| "six\n"
43 "sh look" [Another] TestRunbookCommands| "seven\n"
47 "sh" [Another] | "eight\n"
`
	if got.String() != want {
		t.Errorf("read\n%s\nwant\n%s", got.String(), want)
	}
	if p.Front != "key: value" || fmt.Sprint(p.Headings) != "[A C]" || fmt.Sprint(p.Anchors) != "[title a b c another]" {
		t.Errorf("front matter %q, headings %q, anchors %q", p.Front, p.Headings, p.Anchors)
	}
	if _, err := parse("x.md", "```sh look\nx\n"); err == nil {
		t.Error("a block that does not end is read")
	}
}
