package executor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

// TestUndelivered: what a sub-task was to deliver is named if git ignores it; caches, and programs that gates run, are not.
func TestUndelivered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		subTask          boulder.SubTask
		changed, ignored []string
		want             []string
	}{
		"an output":            {boulder.SubTask{Outputs: []string{"build/report.html"}}, nil, []string{"build/report.html"}, []string{"build/report.html"}},
		"an output of many":    {boulder.SubTask{Outputs: []string{"build/report.html"}}, nil, []string{"build/"}, []string{"build/report.html"}},
		"a value":              {boulder.SubTask{Outputs: []string{"the answer"}}, nil, []string{"build/"}, nil},
		"written":              {boulder.SubTask{Writes: []string{"./.env"}}, nil, []string{".env"}, []string{".env"}},
		"written by a glob":    {boulder.SubTask{Writes: []string{"build/**"}}, nil, []string{"build/"}, []string{"build/"}},
		"a cache in its scope": {boulder.SubTask{Writes: []string{"src/**"}}, []string{"src/a.py"}, []string{"src/__pycache__/a.pyc"}, nil},
		"tested by a gate":     {boulder.SubTask{Gates: []string{"cd . && test -f './build/report.html'"}}, nil, []string{"build/report.html"}, []string{"build/report.html"}},
		"read by a gate":       {boulder.SubTask{Gates: []string{"! grep x build/a; grep y <build/b"}}, nil, []string{"build/a", "build/b"}, []string{"build/a", "build/b"}},
		"run by a gate":        {boulder.SubTask{Gates: []string{"node_modules/.bin/jest src"}}, nil, []string{"node_modules/"}, nil},
		"a cache":              {boulder.SubTask{Gates: []string{"go test ./..."}}, nil, []string{".cache/"}, nil},
	} {
		if d := cmp.Diff(test.want, undelivered(&test.subTask, test.changed, test.ignored)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
