package main

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"time"
)

// The picture is drawn in these units, wide enough for names at the left.
const (
	left, width = 250.0, 1200.0
	rowHeight   = 26.0 // a bar, and below it the line of a gap with its text
	chartHeight = 70.0
)

// picture is the timeline: what was done, what was acknowledged and delivered each second,
// and for each device when it was connected and where, its longest gap, and wills.
func (r *Report) picture() template.HTML {
	p := canvas{begun: r.Begun, span: max(r.Ended.Sub(r.Begun).Seconds(), 1)}
	colours := map[string]int{}
	for i, id := range r.Replicas {
		colours[id] = i
	}
	top := 24.0
	body := top
	p.chart(&body, "acknowledged a second", "ack", r.Acknowledged)
	p.chart(&body, "delivered a second", "del", r.Delivered)
	for _, d := range r.Devices {
		p.device(&body, d, r, colours)
	}
	height := body + 26
	var faults strings.Builder
	for i, f := range r.Faults {
		if f.Skipped != "" {
			continue
		}
		ended := f.Ended
		if ended.IsZero() {
			ended = f.Begun
		}
		fmt.Fprintf(&faults, `<rect class="fault" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect><text class="faultname" x="%.1f" y="%.1f">%s</text>`,
			p.x(f.Begun), top, max(p.x(ended)-p.x(f.Begun), 2), body-top, html.EscapeString(f.Title), p.x(f.Begun), 12.0+float64(i%2)*10, html.EscapeString(f.Name))
	}
	var axis strings.Builder
	step := 10.0
	for p.span/step > 12 {
		step *= 2
	}
	for s := 0.0; s <= p.span; s += step {
		x := left + s/p.span*(width-left)
		fmt.Fprintf(&axis, `<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="tick" x="%.1f" y="%.1f">%s</text>`, x, x, top, body, x, body+16,
			html.EscapeString((time.Duration(s) * time.Second).String()))
	}
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="Timeline of the drill">%s%s%s</svg>`, width+10, height, axis.String(), faults.String(), p.b.String()))
}

type canvas struct {
	b     strings.Builder
	begun time.Time
	span  float64
}

func (p *canvas) x(at time.Time) float64 {
	return left + min(max(at.Sub(p.begun).Seconds(), 0), p.span)/p.span*(width-left)
}

func (p *canvas) chart(y *float64, name, class string, perSecond []int) {
	most := 1
	for _, n := range perSecond {
		most = max(most, n)
	}
	base := *y + chartHeight
	fmt.Fprintf(&p.b, `<text class="name" x="0" y="%.1f">%s</text><text class="peak" x="0" y="%.1f">peak %d</text><path class="%s" d="M%.1f %.1f`, *y+30, name, *y+46, most, class, left, base)
	for i, n := range perSecond {
		x0, x1 := left+float64(i)/p.span*(width-left), left+min(float64(i+1), p.span)/p.span*(width-left)
		h := float64(n) / float64(most) * (chartHeight - 8)
		fmt.Fprintf(&p.b, ` L%.1f %.1f L%.1f %.1f`, x0, base-h, x1, base-h)
	}
	fmt.Fprintf(&p.b, ` L%.1f %.1f Z"/>`, width, base)
	*y = base + 8
}

// device is a row: a bar for each connection, in the colour of its replica where that is
// known.
func (p *canvas) device(y *float64, d Device, r *Report, colours map[string]int) {
	fmt.Fprintf(&p.b, `<text class="name" x="0" y="%.1f">%s</text><line class="row" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, *y+12, html.EscapeString(d.Kind), left, width, *y+8, *y+8)
	for i, e := range d.Events {
		switch e.What {
		case "connected":
			end, why := r.Ended, "to the end"
			if i+1 < len(d.Events) {
				end, why = d.Events[i+1].At, d.Events[i+1].What
				if d.Events[i+1].What == "connected" {
					why = "reconnected"
				}
			} else if d.Kind == "the device that leaves" && !r.Left.IsZero() {
				end, why = r.Left, "left"
			}
			class := "unknown"
			if n, ok := colours[e.Replica]; ok {
				class = fmt.Sprintf("r%d", n%6)
			}
			fmt.Fprintf(&p.b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="10" rx="2"><title>%s, connected %s to %s (%s)</title></rect>`, class, p.x(e.At), *y+3, max(p.x(end)-p.x(e.At)-1, 1.5),
				html.EscapeString(d.ID), html.EscapeString(or(e.Replica, e.Address)), end.Sub(p.begun).Round(100*time.Millisecond), why)
		case "refused":
			fmt.Fprintf(&p.b, `<circle class="refused" cx="%.1f" cy="%.1f" r="2.5"><title>%s was refused, 0x%02X</title></circle>`, p.x(e.At), *y+8, html.EscapeString(d.ID), e.Code)
		}
	}
	if d.Gap > 1 {
		from := d.GapBegun
		to := from.Add(time.Duration(d.Gap * float64(time.Second)))
		text, anchor := p.x(to)+3, "start"
		if text > width-40 {
			text, anchor = p.x(from)-3, "end"
		}
		fmt.Fprintf(&p.b, `<path class="gap" d="M%.1f %.1f H%.1f"><title>nothing for %.1f s</title></path><text class="gaptext" text-anchor="%s" x="%.1f" y="%.1f">%.1f s</text>`,
			p.x(from), *y+18, p.x(to), d.Gap, anchor, text, *y+21, d.Gap)
	}
	for _, w := range r.Wills {
		if w.Device == d.ID {
			class := "falsewill"
			if w.Left {
				class = "will"
			}
			fmt.Fprintf(&p.b, `<path class="%s" d="M%.1f %.1f l5 10 h-10 z"><title>its will was sent</title></path>`, class, p.x(w.At), *y+3)
		}
	}
	*y += rowHeight
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
