package images

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// wanted is what the charts ask for by default: an image is published under that
// very name, so that the lab runs the chart as it is.
type wanted struct {
	broker    string // tag
	nats      string // version
	reloader  named
	timescale named
}

// named is an image a values file names.
type named struct {
	Repository string `yaml:"repository"`
	Tag        string `yaml:"tag"`
}

// readWanted reads the charts.
func readWanted(root string) (wanted, error) {
	var w wanted
	var chart, nats struct {
		AppVersion string `yaml:"appVersion"`
	}
	var values struct {
		Storage struct {
			Timescale struct {
				Bundled struct {
					Image named `yaml:"image"`
				} `yaml:"bundled"`
			} `yaml:"timescale"`
		} `yaml:"storage"`
	}
	var natsValues struct {
		Reloader struct {
			Image named `yaml:"image"`
		} `yaml:"reloader"`
	}
	for path, into := range map[string]any{
		"chart/Chart.yaml": &chart, "chart/charts/nats/Chart.yaml": &nats,
		"chart/values.yaml": &values, "chart/charts/nats/values.yaml": &natsValues,
	} {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err == nil {
			err = yaml.Unmarshal(content, into)
		}
		if err != nil {
			return w, fmt.Errorf("find the images the charts ask for: %w", err)
		}
	}
	w = wanted{broker: chart.AppVersion, nats: nats.AppVersion, reloader: natsValues.Reloader.Image, timescale: values.Storage.Timescale.Bundled.Image}
	for what, text := range map[string]string{
		"appVersion of chart/Chart.yaml": w.broker, "appVersion of chart/charts/nats/Chart.yaml": w.nats,
		"reloader.image of chart/charts/nats": w.reloader.Repository, "its tag": w.reloader.Tag,
		"storage.timescale.bundled.image of chart": w.timescale.Repository, "its tag ": w.timescale.Tag,
	} {
		if text == "" {
			return w, fmt.Errorf("find the images the charts ask for: there is no %s", what)
		}
	}
	return w, nil
}

// peer checks that the module tools/peers builds the version a chart asks for.
func peer(root, module, version, asks string) error {
	content, err := os.ReadFile(filepath.Join(root, "tools/peers/go.mod"))
	if err != nil {
		return fmt.Errorf("find the version of %s: %w", module, err)
	}
	m := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` v(\S+)`).FindSubmatch(content)
	if m == nil {
		return fmt.Errorf("find the version of %s: tools/peers/go.mod does not require it", module)
	}
	if string(m[1]) != version {
		return fmt.Errorf("%s asks for %s %s, tools/peers/go.mod builds %s: an image must be what its tag says", asks, module, version, m[1])
	}
	return nil
}
