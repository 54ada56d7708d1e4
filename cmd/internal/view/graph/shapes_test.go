package graph_test

import (
	"fmt"

	"github.com/bouldermgr/manager/cmd/internal/view/graph"
)

func plain(_, text string) string { return text }

type shape struct {
	title string
	nodes []graph.Node
	edges []graph.Edge
}

func (s *shape) graph() *graph.Graph { return graph.New(s.title, s.nodes, s.edges) }

func (s *shape) add(id, title, status, note string, after ...string) *shape {
	s.nodes = append(s.nodes, graph.Node{ID: id, Title: title, Status: status, Note: note})
	for _, from := range after {
		s.edges = append(s.edges, graph.Edge{From: from, To: id})
	}
	return s
}

func diamond() *shape {
	s := &shape{title: "Add dark mode"}
	return s.add("base", "Collect the colours in one place", "", "").
		add("toggle", "Add the settings toggle", "", "", "base").
		add("theme", "创建深色主题并检查对比度", "", "", "base").
		add("docs", "Write it down", "", "", "toggle", "theme")
}

// statuses has a node of each status, long titles, and an edge that skips two levels.
func statuses() *shape {
	s := &shape{title: "A task whose title is so long that it does not fit on one line, whatever is done, and which goes" +
		" on and on after that as if there was no end to it"}
	return s.add("schema", "Write the schema", "completed", "").
		add("a-sub-task-with-an-id-of-the-greatest-length-that-a-plan-allows-ok", "Migrate every table of the old database"+
			" to the new one, table by table, with a check of the number of rows before and after each", "in_progress",
			"attempt 2 of 3", "schema").
		add("seeds", "Load the seeds", "failed", "attempt 3 of 3", "schema").
		add("report", "Print the report", "blocked", "", "seeds").
		add("index", "Build the index", "pending", "",
			"a-sub-task-with-an-id-of-the-greatest-length-that-a-plan-allows-ok").
		add("cache", "Warm the cache", "skipped", "", "schema").
		add("mail", "Mail them", "cancelled", "", "report").
		add("old", "Do it the old way", "superseded", "replaced by seeds", "schema").
		add("done", "<b>Say</b> & \"done\"", "pending", "", "index", "schema", "cache")
}

// layers makes each sub-task of a level depend on some of the level before.
func layers(deep, wide, after int) *shape {
	s := &shape{title: fmt.Sprintf("%d levels of %d", deep, wide)}
	words := []string{"completed", "completed", "in_progress", "pending", "pending"}
	for d := range deep {
		for w := range wide {
			var before []string
			for k := range min(after, d*after) {
				before = append(before, fmt.Sprintf("s%d-%d", d, (w+k)%wide+1))
			}
			title := fmt.Sprintf("Do part %d of stage %d", w+1, d+1)
			s.add(fmt.Sprintf("s%d-%d", d+1, w+1), title, words[min(d, len(words)-1)], "", before...)
		}
	}
	return s
}

func fan(wide int) *shape {
	s := (&shape{title: "Port all packages"}).add("start", "Make the list of packages", "completed", "")
	var all []string
	for i := range wide {
		id := fmt.Sprintf("p%d", i+1)
		status := []string{"completed", "in_progress", "pending"}[min(2, i/8)]
		s.add(id, fmt.Sprintf("Port package number %d", i+1), status, "", "start")
		all = append(all, id)
	}
	return s.add("end", "Run everything together", "pending", "", all...)
}
