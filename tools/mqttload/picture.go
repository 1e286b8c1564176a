package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"time"
)

// The picture is a row for each figure with ratios, a line where this broker stands, and
// a mark for each peer: right of the line this broker is ahead, left of it the peer. The
// scale is logarithmic, so that twice as good and half as good are equally far away.
const (
	pictureWidth = 940
	labelWidth   = 430
	chartLeft    = labelWidth + 14
	chartRight   = pictureWidth - 24
	rowHeight    = 21
	lineHeight   = 17
	top          = 96 // of the chart: title, machine, legend
)

// shade is a colour on light ground and on dark.
type shade struct{ light, dark string }

// The palette: marks differ in shape as well, for who sees no colours.
var (
	ground  = shade{"#ffffff", "#0d1117"}
	text    = shade{"#1f2328", "#e6edf3"}
	faint   = shade{"#57606a", "#9198a1"} // the scale and what is said beside
	grid    = shade{"#d0d7de", "#30363d"}
	stripe  = shade{"#f6f8fa", "#151b23"}
	markers = []marker{
		{shade{"#0550ae", "#79c0ff"}, func(x, y float64) string { return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="5"/>`, x, y) }},
		{shade{"#a40e26", "#ff7b72"}, func(x, y float64) string {
			return fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="9" height="9"/>`, x-4.5, y-4.5)
		}},
		{shade{"#116329", "#56d364"}, func(x, y float64) string {
			return fmt.Sprintf(`<path d="M%.1f %.1fl5.5 10h-11z"/>`, x, y-5.5)
		}},
		{shade{"#8250df", "#d2a8ff"}, func(x, y float64) string {
			return fmt.Sprintf(`<path d="M%.1f %.1fl6 6l-6 6l-6 -6z"/>`, x, y-6)
		}},
		{shade{"#953800", "#ffa657"}, func(x, y float64) string {
			return fmt.Sprintf(`<path d="M%.1f %.1fl5.5 -10h-11z"/>`, x, y+5.5)
		}},
	}
)

// marker is how a peer is drawn.
type marker struct {
	shade
	draw func(x, y float64) string
}

// style is the picture's own, so that it follows the reader's choice of light or dark
// wherever it is shown.
func style() string {
	var light, dark strings.Builder
	rule := func(selector string, property string, s shade) {
		fmt.Fprintf(&light, "%s{%s:%s}", selector, property, s.light)
		fmt.Fprintf(&dark, "%s{%s:%s}", selector, property, s.dark)
	}
	rule(".ground", "fill", ground)
	rule(".text", "fill", text)
	rule(".faint", "fill", faint)
	rule(".grid", "stroke", grid)
	rule(".first", "stroke", text)
	rule(".stripe", "fill", stripe)
	rule(".mark", "stroke", ground) // marks that overlap stay apart
	for i, m := range markers {
		rule(fmt.Sprintf(".peer%d", i), "fill", m.shade)
	}
	return "text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}.title{font-size:15px;font-weight:600}.end{text-anchor:end}.middle{text-anchor:middle}" +
		light.String() + "@media(prefers-color-scheme:dark){" + dark.String() + "}"
}

// comparedRow is one row of the picture.
type comparedRow struct {
	label  string
	ratios []float64 // of each peer; NaN: it gave no figure
}

func (r *run) compared(measured []benchCase) (rows []comparedRow) {
	for _, c := range measured {
		for _, m := range c.measures {
			row := comparedRow{label: c.name + ": " + m.name}
			any := false
			first := r.median(c.name, r.Brokers[0].Name, m)
			for _, k := range r.Brokers[1:] {
				ratio := m.ratio(first, r.median(c.name, k.Name, m))
				row.ratios = append(row.ratios, ratio)
				any = any || !math.IsNaN(ratio)
			}
			if any {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// picture returns the run as an SVG.
func (r *run) picture() (string, error) {
	measured, err := r.cases()
	if err != nil {
		return "", err
	}
	if len(r.Brokers)-1 > len(markers) {
		return "", fmt.Errorf("draw the picture: there are marks for %d peers, not for %d", len(markers), len(r.Brokers)-1)
	}
	rows := r.compared(measured)
	first := r.Brokers[0].Name
	scale := scaleOf(rows)
	bottom := top + len(rows)*rowHeight
	foot := bottom + 22
	notes := []string{
		"The scale is logarithmic. No mark: the peer gave no figure. What an acknowledgment means differs: the table says it.",
	}
	for _, k := range r.Brokers {
		notes = append(notes, k.Name+": "+k.Version)
	}
	height := foot + lineHeight*(len(notes)+1)
	var b strings.Builder
	title := fmt.Sprintf("How many times better %s did than its peers", first)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title description">`+"\n", pictureWidth, height, pictureWidth, height)
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n<desc id=\"description\">%s</desc>\n<style>%s</style>\n", escape(title), escape(r.description(rows)), style())
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d"/>`+"\n", pictureWidth, height)
	write(&b, 14, 26, "text title", title)
	write(&b, 14, 46, "faint", fmt.Sprintf("%s, measured %s", &r.Machine, r.Measured.UTC().Format(time.DateOnly)))
	x := 14.0
	for i, k := range r.Brokers[1:] {
		fmt.Fprintf(&b, `<g class="peer%d mark">%s</g>`, i, markers[i].draw(x+6, 66))
		write(&b, x+18, 70, "text", k.Name)
		x += 18 + 8*float64(len([]rune(k.Name))) + 18
	}
	write(&b, scale.x(1)-8, top-6, "faint end", "← the peer is ahead")
	write(&b, scale.x(1)+8, top-6, "faint", first+" is ahead →")
	for i, row := range rows {
		y := top + i*rowHeight
		if i%2 == 0 {
			fmt.Fprintf(&b, `<rect class="stripe" x="0" y="%d" width="%d" height="%d"/>`+"\n", y, pictureWidth, rowHeight)
		}
		write(&b, labelWidth, float64(y)+15, "text end", row.label)
	}
	for power := scale.low; power <= scale.high; power++ {
		at := scale.x(math.Pow(10, float64(power)))
		class := "grid"
		if power == 0 {
			class = "first"
		}
		fmt.Fprintf(&b, `<path class="%s" d="M%.1f %dV%d"/>`+"\n", class, at, top, bottom)
		write(&b, at, float64(bottom)+14, "faint middle", "×"+decimal(power))
	}
	for i, row := range rows {
		for j, ratio := range row.ratios {
			if math.IsNaN(ratio) {
				continue
			}
			fmt.Fprintf(&b, `<g class="peer%d mark"><title>%s, %s ×%s</title>%s</g>`+"\n", j, escape(row.label), escape(r.Brokers[j+1].Name), times(ratio),
				markers[j].draw(scale.x(ratio), float64(top+i*rowHeight)+rowHeight/2.0))
		}
	}
	for i, note := range notes {
		write(&b, 14, float64(foot+lineHeight*(i+1)), "faint", note)
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

// description says the picture to who does not see it; the table has the figures.
func (r *run) description(rows []comparedRow) string {
	var parts []string
	for j, k := range r.Brokers[1:] {
		ahead, behind := 0, 0
		for _, row := range rows {
			switch ratio := row.ratios[j]; {
			case ratio > 1+noise:
				ahead++
			case ratio < 1-noise:
				behind++
			}
		}
		parts = append(parts, fmt.Sprintf("ahead of %s in %d of %d figures and behind in %d", k.Name, ahead, len(rows), behind))
	}
	return r.Brokers[0].Name + " is " + strings.Join(parts, "; ") + ". The table has every figure."
}

// logScale is the chart's width in powers of ten.
type logScale struct{ low, high int }

func scaleOf(rows []comparedRow) logScale {
	s := logScale{-1, 1}
	for _, row := range rows {
		for _, ratio := range row.ratios {
			if ratio > 0 && !math.IsInf(ratio, 0) {
				power := math.Log10(ratio)
				s.low, s.high = min(s.low, int(math.Floor(power))), max(s.high, int(math.Ceil(power)))
			}
		}
	}
	return s
}

func (s logScale) x(ratio float64) float64 {
	power := min(max(math.Log10(ratio), float64(s.low)), float64(s.high))
	return chartLeft + (power-float64(s.low))/float64(s.high-s.low)*(chartRight-chartLeft)
}

// decimal is a power of ten written out.
func decimal(power int) string {
	if power >= 0 {
		return whole(math.Pow(10, float64(power)))
	}
	return fmt.Sprintf("%.*f", -power, math.Pow(10, float64(power)))
}

func write(b *strings.Builder, x, y float64, class, what string) {
	fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, x, y, escape(what))
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}
