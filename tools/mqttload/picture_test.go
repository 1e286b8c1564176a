package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func drawn(t *testing.T, r *run) string {
	t.Helper()
	got, err := r.picture()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// elements reads the picture as XML and returns each element's name and attributes, and
// all its text.
func elements(t *testing.T, picture string) (all []xml.StartElement, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(picture))
	d.Strict = true
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, text
		}
		if err != nil {
			t.Fatalf("the picture is not well-formed: %v\n%s", err, picture)
		}
		switch token := token.(type) {
		case xml.StartElement:
			all = append(all, token.Copy())
		case xml.CharData:
			text += string(token) + "\n"
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func TestThePictureHasAMarkForEachRatio(t *testing.T) {
	r := fixture(t)
	// Names are text, whatever is in them.
	r.Brokers[1].Version = `2.0.11 <"&'>`
	all, text := elements(t, drawn(t, r))
	marks := 0
	for _, e := range all {
		if e.Name.Local == "g" {
			marks++
		}
	}
	measured, err := r.cases()
	if err != nil {
		t.Fatal(err)
	}
	ratios := 0
	for _, row := range r.compared(measured) {
		for _, ratio := range row.ratios {
			if !math.IsNaN(ratio) {
				ratios++
			}
		}
	}
	legend := len(r.Brokers) - 1
	if ratios < 5 || marks != ratios+legend {
		t.Errorf("%d marks for %d ratios and %d brokers in the legend", marks, ratios, legend)
	}
	for _, want := range []string{"Some CPU, 2 cores", "measured 2026-01-31", "this broker: 0123456789", `mosquitto: 2.0.11 <"&'>`, "nats-server ×3: 2.15.3",
		"acks, QoS 1, paced at 500/s: ack p50, mosquitto ×0.50", "ahead of mosquitto in"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture does not say %q:\n%s", want, text)
		}
	}
}

// Ahead is right of the line, behind left of it, and nothing is outside the picture.
func TestMarksStandWhereTheirRatioIs(t *testing.T) {
	rows := []comparedRow{{"much", []float64{2500, 0.004, math.NaN()}}}
	s := scaleOf(rows)
	one := s.x(1)
	for ratio, right := range map[float64]bool{2500: true, 1.1: true, 0.9: false, 0.004: false} {
		if x := s.x(ratio); x > one != right || x < chartLeft || x > chartRight {
			t.Errorf("×%v stands at %v, ×1 at %v, the chart is %d to %d", ratio, x, one, chartLeft, chartRight)
		}
	}
	if left, right := one-s.x(0.5), s.x(2)-one; math.Abs(left-right) > 0.01 {
		t.Errorf("half as good is %v away, twice as good %v", left, right)
	}
}

// Everything is drawn by a class that has a colour for light and one for dark ground,
// and stands out against it: text by 4.5 to 1, marks and lines by 3 to 1, as WCAG 2 has
// it. Lines of the grid and stripes may be fainter; text on stripes counts as well.
func TestThePictureIsReadableInLightAndDark(t *testing.T) {
	all, _ := elements(t, drawn(t, fixture(t)))
	light, dark, found := strings.Cut(style(), "@media(prefers-color-scheme:dark)")
	if !found {
		t.Fatal("nothing is said for dark ground")
	}
	for name, sheet := range map[string]string{"light": light, "dark": dark} {
		t.Run(name, func(t *testing.T) {
			colours := map[string]float64{} // luminance by class
			for _, m := range regexp.MustCompile(`\.(\w+)\{(?:fill|stroke):#(\w{6})\}`).FindAllStringSubmatch(sheet, -1) {
				colours[m[1]] = luminance(t, m[2])
			}
			checked := 0
			for _, e := range all {
				class := strings.Fields(attribute(e, "class"))
				if e.Name.Local == "text" && len(class) == 0 {
					t.Errorf("a text has no class: %v", e)
				}
				if len(class) == 0 {
					continue
				}
				colour, has := colours[class[0]]
				if !has {
					t.Errorf("class %s has no colour", class[0])
					continue
				}
				least := 3.0
				switch {
				case e.Name.Local == "text":
					least = 4.5
				case class[0] == "ground" || class[0] == "grid" || class[0] == "stripe":
					continue
				}
				for _, behind := range []string{"ground", "stripe"} {
					checked++
					if got := contrast(colour, colours[behind]); got < least {
						t.Errorf("%s on %s: contrast %.2f, want %.1f", class[0], behind, got, least)
					}
				}
			}
			if checked < 50 {
				t.Errorf("only %d colours were looked at", checked)
			}
		})
	}
}

// luminance and contrast are WCAG 2's.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }

// No two peers are told apart by colour alone, and there are marks for all that can be
// measured together.
func TestPeersDifferInShape(t *testing.T) {
	shapes := map[string]bool{}
	for _, m := range markers {
		shapes[regexp.MustCompile(`[\d.-]+`).ReplaceAllString(m.draw(0, 0), "")+m.draw(100, 100)] = true
	}
	if len(shapes) != len(markers) {
		t.Errorf("%d shapes for %d marks", len(shapes), len(markers))
	}
	r := fixture(t)
	for i := range len(markers) {
		r.Brokers = append(r.Brokers, broker{Name: fmt.Sprint("one more ", i)})
	}
	if _, err := r.picture(); err == nil {
		t.Error("more peers were drawn than there are marks")
	}
}
