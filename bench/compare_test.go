package main

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		results []float64
		want    float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{9, 1, 2, 4}, 3},
	} {
		if got := median(test.results); got != test.want {
			t.Errorf("median(%v) = %v, want %v", test.results, got, test.want)
		}
	}
}

// TestPass would fail if a measurement without results passed.
func TestPass(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ours, theirs float64
		want         bool
	}{{1, 2, true}, {1.0001, 2, false}, {0, 0, false}, {1, 0, false}, {math.NaN(), 1, false}} {
		c := comparison{ours: side{results: []float64{test.ours}}, theirs: side{results: []float64{test.theirs}}, limit: 0.5}
		if got := c.pass(); got != test.want {
			t.Errorf("%v against %v: pass = %v", test.ours, test.theirs, got)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := printTable(&out, []comparison{
		{
			name: "a", ours: side{"ours", []float64{1, 3, 2}}, theirs: side{"theirs", []float64{4, 4, 4}},
			format: seconds, limit: 0.5,
		},
		{
			name: "b", ours: side{"ours", []float64{3e6}}, theirs: side{"theirs", []float64{4e6}},
			format: megabytes, limit: 0.5,
		},
		{name: "c", ours: side{"ours", []float64{3}}, theirs: side{"theirs", []float64{4}}, format: perSecond, least: 0.75},
		{name: "d", ours: side{"ours", []float64{3}}, theirs: side{"theirs", []float64{5}}, format: perSecond, least: 0.75},
	})
	want := []string{
		"median (min–max) median (min–max) n ratio limit",
		"a ours 2.00 s (1.00 s–3.00 s) theirs 4.00 s (4.00 s–4.00 s) 3 0.500 ≤ 0.50 pass",
		"b ours 3 MB (3 MB–3 MB) theirs 4 MB (4 MB–4 MB) 1 0.750 ≤ 0.50 MISS",
		"c ours 3/s (3/s–3/s) theirs 4/s (4/s–4/s) 1 0.750 ≥ 0.75 pass",
		"d ours 3/s (3/s–3/s) theirs 5/s (5/s–5/s) 1 0.600 ≥ 0.75 MISS",
	}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if got := oneLine(line); i >= len(want) || got != want[i] {
			t.Errorf("line %d: %q", i, got)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestRaceTakesTurns(t *testing.T) {
	t.Parallel()
	var order string
	racer := func(name string, result float64) contender {
		return contender{name, func(context.Context) (float64, error) {
			order += name
			return result, nil
		}}
	}
	w := &world{}
	results, err := w.race(t.Context(), 3, racer("a", 1), racer("b", 2))
	if err != nil || order != "abbaab" {
		t.Errorf("order %s, error %v", order, err)
	}
	for i, want := range []float64{1, 2} {
		if got := results[i]; len(got) != 3 || median(got) != want {
			t.Errorf("results of contender %d: %v", i, got)
		}
	}
	broken := contender{"c", func(context.Context) (float64, error) { return 0, io.EOF }}
	if _, err := w.race(t.Context(), 3, racer("a", 1), broken); !errors.Is(err, io.EOF) {
		t.Errorf("error of a broken contender: %v", err)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	if all, err := choose(""); err != nil || len(all) != len(suites()) {
		t.Errorf("nothing chosen: %d suites, %v", len(all), err)
	}
	if some, err := choose("status,chain"); err != nil || len(some) != 2 || some[0].name != "status" {
		t.Errorf("two chosen: %v, %v", some, err)
	}
	if _, err := choose("chain,nonsense"); err == nil {
		t.Error("nonsense was chosen")
	}
}
