package graph_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var svgRect = regexp.MustCompile(`class="box" x="(-?\d+)" y="(-?\d+)" width="(\d+)" height="(\d+)"`)

// No box of an SVG lies on another one or off the page, and each edge has its arrow head.
func TestBoxesHaveRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := plans(t)
		svg := s.graph().SVG()
		var width, height int
		_, err := fmt.Sscanf(svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d"`, &width, &height)
		if err != nil {
			t.Fatal(err)
		}
		type box struct{ left, top, right, bottom int }
		var boxes []box
		for _, m := range svgRect.FindAllStringSubmatch(svg, -1) {
			var b box
			if _, err := fmt.Sscan(strings.Join(m[1:], " "), &b.left, &b.top, &b.right, &b.bottom); err != nil {
				t.Fatal(err)
			}
			b.right, b.bottom = b.right+b.left, b.bottom+b.top
			if b.left < 0 || b.top < 0 || b.right > width || b.bottom > height {
				t.Fatalf("%+v is off the page of %d × %d", b, width, height)
			}
			for _, o := range boxes {
				if b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom {
					t.Fatalf("%+v lies on %+v", b, o)
				}
			}
			boxes = append(boxes, b)
		}
		if len(boxes) != len(s.nodes) {
			t.Fatalf("%d boxes for %d nodes", len(boxes), len(s.nodes))
		}
		if heads := strings.Count(svg, "marker-end"); heads != len(s.edges) {
			t.Fatalf("%d arrow heads for %d edges", heads, len(s.edges))
		}
	})
}
