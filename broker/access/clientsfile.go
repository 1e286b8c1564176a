package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSeedBytes bounds clients.yaml.
const maxSeedBytes = 64 << 20

// declared is one entry of clients.yaml. SecretHash is empty if it has a secret.
type declared struct {
	client Client
	secret string
}

// CheckSeed says what is wrong with a clients.yaml, all of it at once, each with
// its line and key.
func CheckSeed(clientsYAML []byte) error {
	_, err := parseSeed(clientsYAML)
	return err
}

// parseSeed reads a clients.yaml:
//
//	clients:
//	  - id: press-7
//	    secret: …            # or secretHash: $sha256$… | $argon2id$…
//	    workspace: plant
//	    publish: [line1/#]   # absent: everything, []: nothing
//	    subscribe: []
//	    scopes: [uns:read]
func parseSeed(data []byte) ([]declared, error) {
	if len(data) > maxSeedBytes {
		return nil, fmt.Errorf("%d bytes: allowed are %d", len(data), maxSeedBytes)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if err == io.EOF {
			return nil, errors.New("empty: want clients: [...]")
		}
		return nil, err
	}
	p := &seedParser{ids: map[string]string{}}
	clients := p.file(document.Content[0])
	if err := decoder.Decode(&yaml.Node{}); err != io.EOF {
		p.fail(&document, "", "more than one YAML document")
	}
	if p.errs != nil {
		return nil, errors.Join(p.errs...)
	}
	return clients, nil
}

// maxSeedErrors bounds the report on a file of another kind altogether.
const maxSeedErrors = 100

type seedParser struct {
	ids  map[string]string // key path of the entry that has the id
	errs []error
}

func (p *seedParser) fail(n *yaml.Node, path, format string, args ...any) {
	if len(p.errs) >= maxSeedErrors {
		return
	}
	where := fmt.Sprintf("line %d: ", n.Line)
	if path != "" {
		where += path + ": "
	}
	p.errs = append(p.errs, fmt.Errorf(where+format, args...))
}

func (p *seedParser) file(root *yaml.Node) (clients []declared) {
	var list *yaml.Node
	p.mapping(root, "", "clients", func(key string, value *yaml.Node) { list = value })
	if list == nil {
		if p.errs == nil {
			p.fail(root, "clients", "missing")
		}
		return nil
	}
	if list.Tag == "!!null" {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		p.fail(list, "clients", "must be a list, is %s", kindName(list))
		return nil
	}
	for i, n := range list.Content {
		clients = append(clients, p.entry(n, fmt.Sprintf("clients[%d]", i)))
	}
	return clients
}

// mapping calls each for every key of a mapping, which must be among the allowed.
func (p *seedParser) mapping(n *yaml.Node, path, allowed string, each func(key string, value *yaml.Node)) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		p.fail(n, path, "must be a mapping with the keys %s, is %s", allowed, kindName(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := key.Value
		if path != "" {
			at = path + "." + key.Value
		}
		switch {
		case key.Kind != yaml.ScalarNode || !containsWord(allowed, key.Value):
			p.fail(key, at, "unknown key: allowed are %s", allowed)
		case seen[key.Value]:
			p.fail(key, at, "given twice")
		default:
			seen[key.Value] = true
			each(key.Value, resolve(n.Content[i+1]))
		}
	}
}

const entryKeys = "id, secret, secretHash, workspace, publish, subscribe, scopes"

func (p *seedParser) entry(n *yaml.Node, path string) (d declared) {
	c := &d.client
	nodes := map[string]*yaml.Node{} // of the keys given
	bad := map[string]bool{}         // of them, those that are of the wrong kind
	if resolve(n).Kind != yaml.MappingNode {
		p.mapping(n, path, entryKeys, nil)
		return d
	}
	p.mapping(n, path, entryKeys, func(key string, value *yaml.Node) {
		nodes[key] = value
		before := len(p.errs)
		at := path + "." + key
		switch key {
		case "id":
			c.ID = p.text(value, at)
		case "workspace":
			c.Workspace = p.text(value, at)
		case "secret":
			d.secret = p.text(value, at)
		case "secretHash":
			c.SecretHash = p.text(value, at)
		case "publish":
			c.Publish = p.texts(value, at)
		case "subscribe":
			c.Subscribe = p.texts(value, at)
		case "scopes":
			c.Scopes = p.texts(value, at)
		}
		bad[key] = len(p.errs) > before
	})
	c.complete()
	if !bad["id"] {
		p.id(n, path, c.ID, nodes["id"])
	}
	if !bad["workspace"] {
		p.name(n, path+".workspace", c.Workspace, nodes["workspace"])
	}
	if !bad["secret"] && !bad["secretHash"] {
		p.secret(n, path, &d, nodes)
	}
	for _, list := range []struct {
		key   string
		given []string
		check func(string) error
	}{{"publish", c.Publish, checkFilter}, {"subscribe", c.Subscribe, checkFilter}, {"scopes", c.Scopes, checkScope}} {
		if bad[list.key] || nodes[list.key] == nil {
			continue
		}
		p.list(nodes[list.key], path+"."+list.key, list.given, list.check)
	}
	return d
}

func (p *seedParser) list(n *yaml.Node, path string, given []string, check func(string) error) {
	if len(given) > maxFilters {
		p.fail(n, path, "has %d entries: allowed are %d", len(given), maxFilters)
		return
	}
	for i, s := range given {
		if err := check(s); err != nil {
			p.fail(n.Content[i], fmt.Sprintf("%s[%d]", path, i), "%v", err)
		}
	}
}

// name checks what a key holds, or at entry that it is missing.
func (p *seedParser) name(entry *yaml.Node, path, name string, at *yaml.Node) {
	if at == nil {
		at = entry
	}
	if err := checkName(name); err != nil {
		p.fail(at, path, "%v", err)
	}
}

func (p *seedParser) id(entry *yaml.Node, path, id string, at *yaml.Node) {
	p.name(entry, path+".id", id, at)
	if first := p.ids[id]; first != "" {
		p.fail(at, path+".id", "%q is the id of %s too", id, first)
	} else if id != "" {
		p.ids[id] = path
	}
}

func (p *seedParser) secret(n *yaml.Node, path string, d *declared, nodes map[string]*yaml.Node) {
	switch secret, hash := nodes["secret"], nodes["secretHash"]; {
	case secret != nil && hash != nil:
		p.fail(hash, path+".secretHash", "given beside secret: want one of the two")
	case secret != nil:
		if err := checkSecret(d.secret); err != nil {
			p.fail(secret, path+".secret", "%v", err)
		}
	case hash != nil:
		if _, err := parseHash(d.client.SecretHash); err != nil {
			p.fail(hash, path+".secretHash", "%v", err)
		}
	default:
		p.fail(n, path, "has neither secret nor secretHash")
	}
}

// text reads a string. A number or a date is refused rather than guessed at:
// 007 written plainly is 7.
func (p *seedParser) text(n *yaml.Node, path string) string {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		p.fail(n, path, "must be a string, is %s (put it in quotes)", kindName(n))
		return ""
	}
	return n.Value
}

// texts reads a list of strings, never nil.
func (p *seedParser) texts(n *yaml.Node, path string) []string {
	if n.Kind != yaml.SequenceNode {
		p.fail(n, path, "must be a list of strings, is %s", kindName(n))
		return nil
	}
	list := make([]string, 0, len(n.Content))
	for i, item := range n.Content {
		list = append(list, p.text(resolve(item), fmt.Sprintf("%s[%d]", path, i)))
	}
	return list
}

// resolve follows an alias, which can only lead to what was written before it.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return map[string]string{"!!null": "nothing", "!!int": "a number", "!!float": "a number", "!!bool": "true or false",
			"!!timestamp": "a date", "!!str": "a string"}[n.ShortTag()]
	}
}

// containsWord says whether word is among a comma-separated list.
func containsWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ", ") {
		if w == word {
			return true
		}
	}
	return false
}
