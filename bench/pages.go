package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/managertest"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// measurePages measures `manager ui` with 1,000 boulders, one of them with 500 sub-tasks: the first byte and the
// weight of each page, and the delay of an event. It also compares a run shown on 50 pages with one shown on none.
func measurePages(ctx context.Context, w *world) (all []comparison, err error) {
	dir := filepath.Join(w.root, "pages")
	id, err := w.history(ctx, dir)
	if err != nil {
		return nil, err
	}
	seen, err := w.openPages(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer seen.stop()
	hold := func(name, what string, rounds int, limit float64, format func(float64) string, once func(context.Context) (float64, error)) {
		if err != nil {
			return
		}
		var results [][]float64
		if results, err = w.race(ctx, rounds, contender{what, once}); err == nil {
			all = append(all, fixed(name, what, results[0], limit, format))
		}
	}
	hold("first byte, first look", "boulder", 5, 0.1, milliseconds, func(ctx context.Context) (float64, error) {
		fresh, err := w.openPages(ctx, dir)
		if err != nil {
			return 0, err
		}
		defer fresh.stop()
		took, _, err := fresh.look(ctx, "/b/"+id)
		return took, err
	})
	weight := 0
	for _, page := range [][2]string{
		{"home", "/"}, {"boulders", "/boulders"}, {"sub-task", "/b/" + id + "/t/s1"}, {"report", "/b/" + id + "/report"},
		{"changes", "/b/" + id + "/changes"}, {"time and cost", "/b/" + id + "/time"}, {"log", "/b/" + id + "/log"},
		{"boulder", "/b/" + id}, // after the first look: the log is loaded
	} {
		hold("first byte", page[0], 21, 0.1, milliseconds, func(ctx context.Context) (float64, error) {
			took, size, err := seen.look(ctx, page[1])
			weight = max(weight, size)
			return took, err
		})
	}
	hold("an event", "on the page", 11, 0.2, milliseconds, func(ctx context.Context) (float64, error) { return seen.hears(ctx, dir, id) })
	hold("weight", "the heaviest page", 1, 150e3, kilobytes, func(ctx context.Context) (float64, error) {
		_, style, err := seen.look(ctx, "/style.css")
		_, script, scriptErr := seen.look(ctx, "/live.js")
		return float64(weight + style + script), errors.Join(err, scriptErr)
	})
	if err != nil {
		return all, err
	}
	watched, err := w.watchedRun(ctx)
	return append(all, watched), err
}

// history creates a project with many boulders and returns the id of the large one.
func (w *world) history(ctx context.Context, dir string) (id string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	state, err := store.EnsureDir(dir)
	if err != nil {
		return "", err
	}
	db, err := store.Open(filepath.Join(state, store.FileName), store.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	o, err := newLoop(dir, db, &managertest.Runner{})
	if err != nil {
		return "", err
	}
	boulders, steps := w.size(1000, 5), w.size(500, 10)
	for i := range boulders {
		size := 1
		if i == boulders-1 {
			size = steps
		}
		plan := shapedPlan(shapeChain, size)
		for i := range plan.SubTasks { // ten chains with cross dependencies
			if plan.SubTasks[i].DependsOn = nil; i >= 10 {
				plan.SubTasks[i].DependsOn = []string{fmt.Sprintf("s%d", i-10), fmt.Sprintf("s%d", (i/10-1)*10+(i+3)%10)}
			}
		}
		for event, err := range o.Run(ctx, orchestrator.Request{Plan: plan}) {
			if err != nil {
				return "", err
			}
			id = event.BoulderID
		}
	}
	return id, nil
}

// pages is `manager ui` and a logged-in browser.
type pages struct {
	process *process
	root    string
	http.Client
}

func (w *world) openPages(ctx context.Context, dir string) (*pages, error) {
	p := &pages{process: w.command(ctx, dir, w.manager, "ui", "--json")}
	p.process.Stdout = nil
	out, err := p.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.process.Start(); err != nil {
		return nil, err
	}
	var said struct{ Links []string }
	err = json.NewDecoder(out).Decode(&said)
	if err == nil {
		p.root, _, _ = strings.Cut(said.Links[0], "/link/")
		p.Jar, err = cookiejar.New(nil)
		p.Transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1}
	}
	if err == nil {
		_, _, err = p.look(ctx, strings.TrimPrefix(said.Links[0], p.root))
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("manager ui: %w: %s", err, oneLine(p.process.output.String()))
	}
	return p, nil
}

func (p *pages) stop() {
	_ = p.process.killGroup()
	_ = p.process.Wait() // it was killed
}

func (p *pages) get(ctx context.Context, path string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.root+path, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := p.Do(r)
	if err == nil && answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		err = fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	return answer, err
}

// look returns the seconds until the first byte of a page, and its compressed size.
func (p *pages) look(ctx context.Context, path string) (took float64, size int, err error) {
	began := time.Now()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { took = time.Since(began).Seconds() }})
	answer, err := p.get(ctx, path, "Accept-Encoding", "gzip")
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	return took, int(n), err
}

// hears returns the seconds from when an order is on disk until the boulder's open page shows it.
func (p *pages) hears(ctx context.Context, dir, id string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := p.get(ctx, "/b/"+id, "Accept", "text/event-stream")
	if err != nil {
		return 0, err
	}
	defer stream.Body.Close()
	lines := bufio.NewReaderSize(stream.Body, 1<<20)
	shown := func(before string) (event string, err error) { // waits for an event number other than before
		for err == nil && (event == "" || event == before) {
			var line string
			line, err = lines.ReadString('\n')
			if number, is := strings.CutPrefix(line, "id: "); is {
				event, _, _ = strings.Cut(number, ".")
			}
		}
		return event, err
	}
	before, err := shown("")
	if err != nil {
		return 0, err
	}
	db, err := store.Open(filepath.Join(dir, store.DirName, store.FileName), store.Options{Timeout: patience})
	if err != nil {
		return 0, err
	}
	archive := boulder.Order{Do: boulder.OrderArchive}
	if err = orchestrator.Obey(ctx, db, id, archive, time.Now()); err != nil { // archived already, in every second round
		archive.Do = boulder.OrderUnarchive
		err = orchestrator.Obey(ctx, db, id, archive, time.Now())
	}
	began := time.Now()
	if err = errors.Join(err, db.Close()); err == nil {
		_, err = shown(before)
	}
	return time.Since(began).Seconds(), err
}

// watchedRun compares a run shown on pages, half of them its own, with the same run shown on none.
func (w *world) watchedRun(ctx context.Context) (c comparison, err error) {
	dir, err := w.project(ctx, "watched", 40)
	if err != nil {
		return c, err
	}
	warm, err := w.startServer(ctx, dir)
	if err != nil {
		return c, err
	}
	defer w.leave(warm)
	n, open := w.size(20, 1), w.size(50, 4)
	plan, err := w.plan("watched.yaml", n, independent)
	if err != nil {
		return c, err
	}
	seen, err := w.openPages(ctx, dir)
	if err != nil {
		return c, err
	}
	defer seen.stop()
	run := func(open int) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			ctx, cancel := context.WithCancel(ctx)
			var readers sync.WaitGroup
			defer readers.Wait()
			defer cancel()
			show := func(path string) {
				for range open / 2 {
					readers.Go(func() {
						if stream, err := seen.get(ctx, path, "Accept", "text/event-stream"); err == nil {
							_, _ = io.Copy(io.Discard, stream.Body) // until the run ends
							stream.Body.Close()
						}
					})
				}
			}
			show("/")
			p := w.managerRun(ctx, dir, plan, "--in-place", "--attach", warm.URL, "--json")
			p.Stdout = nil
			out, err := p.StdoutPipe()
			if err != nil {
				return 0, err
			}
			return timed(func() error {
				if err := p.Start(); err != nil {
					return err
				}
				events := bufio.NewReader(out)
				first, _ := events.ReadBytes('\n')
				var e struct {
					ID string `json:"boulder_id"`
				}
				if json.Unmarshal(bytes.TrimSpace(first), &e) == nil && e.ID != "" {
					show("/b/" + e.ID)
				}
				_, _ = io.Copy(io.Discard, events)
				return p.finish()
			})
		}
	}
	shown := fmt.Sprintf("%d pages", open)
	results, err := w.race(ctx, 11, contender{shown, run(open)}, contender{"no page", run(0)})
	if err != nil {
		return c, err
	}
	return comparison{
		name: fmt.Sprintf("%d at once, shown", n), ours: side{shown, results[0]}, theirs: side{"no page", results[1]}, format: seconds, limit: 1.05,
	}, nil
}
