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

// comparison is one line of the table: the manager's results against those of its reference.
type comparison struct {
	name         string
	ours, theirs side
	format       func(float64) string
	limit        float64 // largest ratio of the medians that passes; 0: any
}

type side struct {
	what    string
	results []float64
}

// fixed compares with an absolute limit, the same on every machine.
func fixed(name, what string, results []float64, limit float64, format func(float64) string) comparison {
	return comparison{name, side{what, results}, side{"fixed", []float64{limit}}, format, 1}
}

func (c comparison) ratio() float64 { return median(c.ours.results) / median(c.theirs.results) }

// pass is also false if the ratio is not a number.
func (c comparison) pass() bool { return c.ratio() > 0 && (c.limit == 0 || c.ratio() <= c.limit) }

// median returns the mean of the middle two if the number of results is even, and 0 if there are none.
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

// Formats of results: times are in seconds, sizes in bytes.

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func milliseconds(s float64) string { return fmt.Sprintf("%.1f ms", s*1e3) }

func microseconds(s float64) string { return fmt.Sprintf("%.0f µs", s*1e6) }

func kilobytes(b float64) string { return fmt.Sprintf("%.0f kB", b/1e3) }

func megabytes(b float64) string { return fmt.Sprintf("%.0f MB", b/1e6) }

// contender is one side of a race. once runs it once and returns one result.
type contender struct {
	name string
	once func(context.Context) (float64, error)
}

func timing(name string, do func(context.Context) error) contender {
	return contender{name, func(ctx context.Context) (float64, error) { return timed(func() error { return do(ctx) }) }}
}

// race runs all contenders in every round, so that other load hits them alike. Every second round runs in reverse, so
// that no contender always follows the same one. Results are in the order of the contenders.
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

func timed(f func() error) (float64, error) {
	began := time.Now()
	err := f()
	return time.Since(began).Seconds(), err
}

// oneLine joins the lines of a process's output for an error message.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
