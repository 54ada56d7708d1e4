package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// comparison is one line of the table: what was measured of the manager against what it is measured by.
type comparison struct {
	name         string
	ours, theirs side
	format       func(float64) string
	limit        float64 // the largest ratio of the medians that passes; 0: any
}

// side is one of the two, with every single result.
type side struct {
	what    string
	results []float64
}

// fixed compares with a limit that is the same on every machine.
func fixed(name, what string, results []float64, limit float64, format func(float64) string) comparison {
	return comparison{name, side{what, results}, side{"fixed", []float64{limit}}, format, 1}
}

func (c comparison) ratio() float64 { return median(c.ours.results) / median(c.theirs.results) }

// pass is false also for a ratio that is not a number.
func (c comparison) pass() bool { return c.ratio() > 0 && (c.limit == 0 || c.ratio() <= c.limit) }

// median of the results; the mean of the middle two if their number is even.
func median(results []float64) float64 {
	sorted := slices.Sorted(slices.Values(results))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// printTable prints medians, with the smallest and the largest result in brackets.
func printTable(out io.Writer, comparisons []comparison) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\t\tmedian (min–max)\t\tmedian (min–max)\tn\tratio\tlimit\t")
	for _, c := range comparisons {
		limit, verdict := fmt.Sprintf("≤ %.2f", c.limit), "pass"
		switch {
		case !c.pass():
			verdict = "MISS"
		case c.limit == 0:
			limit, verdict = "-", ""
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%.3f\t%s\t%s\n", c.name, c.ours.what, c.ours.summary(c.format),
			c.theirs.what, c.theirs.summary(c.format), len(c.ours.results), c.ratio(), limit, verdict)
	}
	return t.Flush()
}

func (s side) summary(format func(float64) string) string {
	if len(s.results) == 0 {
		return "nothing"
	}
	smallest, largest := format(slices.Min(s.results)), format(slices.Max(s.results))
	return fmt.Sprintf("%s (%s–%s)", format(median(s.results)), smallest, largest)
}

// Units of results. Times are in seconds, sizes in bytes.

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func milliseconds(s float64) string { return fmt.Sprintf("%.1f ms", s*1e3) }

func microseconds(s float64) string { return fmt.Sprintf("%.0f µs", s*1e6) }

func kilobytes(b float64) string { return fmt.Sprintf("%.0f kB", b/1e3) }

func megabytes(b float64) string { return fmt.Sprintf("%.0f MB", b/1e6) }

// contender is one side of a race: it runs once and gives one result.
type contender struct {
	name string
	once func(context.Context) (float64, error)
}

// timing is a contender whose result is the seconds that it takes.
func timing(name string, do func(context.Context) error) contender {
	return contender{name, func(ctx context.Context) (float64, error) { return timed(func() error { return do(ctx) }) }}
}

// race runs all contenders in every round, so that what else happens on the machine hits them alike. Every second
// round goes backwards, so that nobody always runs in the warmth of the same other. The results come in the order of
// the contenders.
func (w *world) race(ctx context.Context, rounds int, contenders ...contender) ([][]float64, error) {
	if w.once {
		rounds = 1
	}
	results := make([][]float64, len(contenders))
	for round := range rounds {
		order := make([]int, len(contenders))
		for i := range order {
			order[i] = i
		}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, i := range order {
			result, err := contenders[i].once(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", contenders[i].name, err)
			}
			results[i] = append(results[i], result)
			w.detail("%s: %.6g", contenders[i].name, result)
		}
	}
	return results, nil
}

// timed measures what takes a while.
func timed(f func() error) (float64, error) {
	began := time.Now()
	err := f()
	return time.Since(began).Seconds(), err
}

// oneLine is for error messages that quote what a process printed.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
