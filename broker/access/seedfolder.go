package access

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// SeedFile is one of several files of API clients.
type SeedFile struct {
	Name string
	Data []byte
}

// JoinSeeds makes one clients.yaml of several files. What is wrong with any of them
// is returned, with its name; so is an id that two of them have.
func JoinSeeds(files []SeedFile) ([]byte, error) {
	var wrong []error
	first := make(map[string]string) // id -> name of the file that has it
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, f := range files {
		clients, err := parseSeed(f.Data)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", f.Name, err))
			continue
		}
		for _, c := range clients {
			if other, twice := first[c.client.ID]; twice {
				wrong = append(wrong, fmt.Errorf("%s: API client %q is in %s too", f.Name, c.client.ID, other))
			}
			first[c.client.ID] = f.Name
		}
		var document struct {
			Clients yaml.Node `yaml:"clients"`
		}
		if err := yaml.Unmarshal(f.Data, &document); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		for _, n := range document.Clients.Content {
			plain, err := unaliased(n)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			list.Content = append(list.Content, plain)
		}
	}
	if wrong != nil {
		return nil, errors.Join(wrong...)
	}
	return yaml.Marshal(map[string]*yaml.Node{"clients": list})
}

// unaliased is an entry without what it refers to by name: two files may use the same
// names for different things.
func unaliased(n *yaml.Node) (*yaml.Node, error) {
	var entry any
	if err := n.Decode(&entry); err != nil {
		return nil, err
	}
	plain := new(yaml.Node)
	return plain, plain.Encode(entry)
}
