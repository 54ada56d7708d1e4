package main

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/cmd/internal/cli"
)

// Headings of documents and forms of flags may change; the page of manager then lacks what it promises.
func TestManPage(t *testing.T) {
	t.Chdir("../../..") // where the documents are
	page, err := manPage(cli.Command())
	if err != nil {
		t.Fatal(err)
	}
	rest := string(page)
	for _, want := range []string{
		".TH ", `\fB--config\fP=FILE`, `\fB--json\fP` + "\n", ".SH EXIT STATUS", `\fB130\fP: interrupted`, ".SH ENVIRONMENT",
		"NO_COLOR", ".SH FILES", "manager.db", ".SH SEE ALSO", "manager-run(1)",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("the page has no %q, or not in this place:\n%s", want, page)
		}
		rest = after
	}
	if strings.Contains(string(page), "](") || strings.Count(string(page), ".TH ") != 1 {
		t.Errorf("a link, or more than one header:\n%s", page)
	}
}
