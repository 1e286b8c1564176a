package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"maestrohub.io/uns/tools/launch"
)

// The commands of make, which are the names of their result files and of their parts of
// broker/README.md.
const (
	aloneCommand   = "bench"
	clusterCommand = "bench-cluster"
)

// Where the figures that are shown live, below the repository.
const (
	figuresDir = "tools/mqttload/figures"
	readme     = "broker/README.md"
)

func pageCommand() *cobra.Command {
	var rewrite bool
	cmd := &cobra.Command{
		Use: "page FILE", Short: "Make table and picture of a result file", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := load(args[0])
			if err != nil {
				return err
			}
			return r.show(strings.TrimSuffix(args[0], ".json"), rewrite)
		},
	}
	cmd.Flags().BoolVar(&rewrite, "rewrite", false, "keep the file in "+figuresDir+" and put table and picture into "+readme)
	return cmd
}

// show prints the table, draws the picture beside the result file, and with rewrite puts
// all three where readers find them.
func (r *run) show(beside string, rewrite bool) error {
	table, err := r.markdown()
	if err != nil {
		return err
	}
	picture, err := r.picture()
	if err != nil {
		return err
	}
	fmt.Print(table)
	if err := replace(beside+".svg", []byte(picture)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "results in %s.json, picture in %s.svg\n", beside, beside)
	if !rewrite {
		return nil
	}
	root, err := launch.Root()
	if err != nil {
		return err
	}
	kept := filepath.Join(root, figuresDir, r.Command)
	if err := r.save(kept + ".json"); err != nil {
		return err
	}
	if err := replace(kept+".svg", []byte(picture)); err != nil {
		return err
	}
	page, err := os.ReadFile(filepath.Join(root, readme))
	if err != nil {
		return fmt.Errorf("put the figures into the page: %w", err)
	}
	next, err := r.into(string(page))
	if err != nil {
		return err
	}
	return replace(filepath.Join(root, readme), []byte(next))
}

// into puts the run's part of the page between its marks.
func (r *run) into(page string) (string, error) {
	begin, end := "<!-- "+r.Command+":begin -->\n", "<!-- "+r.Command+":end -->"
	head, rest, found := strings.Cut(page, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", fmt.Errorf("put the figures into %s: it has no %s and %s", readme, strings.TrimSpace(begin), end)
	}
	table, err := r.markdown()
	if err != nil {
		return "", err
	}
	return head + begin + fmt.Sprintf("![%s beside its peers, the table below as a picture](../%s/%s.svg)\n\n", r.Brokers[0].Name, figuresDir, r.Command) + table + end + tail, nil
}
