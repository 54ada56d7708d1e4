package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	goldenfile "github.com/bouldermgr/manager/internal/golden"
	samples "github.com/bouldermgr/manager/internal/golden/sample"
	"github.com/bouldermgr/manager/store"
)

const sampleID = samples.ID

var sampleStart = samples.Began

// sample is a boulder that can be stored.
type sample struct{ *samples.Boulder }

func newSample(t *testing.T) *sample { return newSampleOf(t, sampleID) }

func newSampleOf(t *testing.T, id string) *sample {
	t.Helper()
	return &sample{samples.New(t, id)}
}

// store writes the sample into a new project, and returns the project's directory.
func (s *sample) store() string {
	s.T.Helper()
	project := s.T.TempDir()
	s.storeIn(project)
	return project
}

func (s *sample) storeIn(project string) {
	s.T.Helper()
	dir, err := store.EnsureDir(project)
	if err != nil {
		s.T.Fatal(err)
	}
	db, err := store.Open(filepath.Join(dir, store.FileName), store.Options{})
	if err != nil {
		s.T.Fatal(err)
	}
	defer db.Close()
	s.commit(db)
}

func (s *sample) commit(db *store.DB) {
	s.T.Helper()
	events := s.State.TakeEvents()
	for i := range events { // where the test wants it to be
		if b, ok := events[i].Body.(boulder.Created); ok {
			b.Boulder.Project = s.State.Boulder.Project
			events[i].Body = b
		}
	}
	if len(events) > 0 {
		if err := db.Commit(s.T.Context(), s.State, events); err != nil {
			s.T.Fatal(err)
		}
	}
}

// command runs a command line in a project.
func command(project string, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = Main(Env{Args: append(args, "-C", project), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Environ: []string{"HOME=" + filepath.Join(project, "home"), "PATH=" + os.Getenv("PATH")}})
	return out.String(), errs.String(), code
}

// testApp is an app that writes into buffers.
func testApp(environ ...string) (a *app, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return &app{Env: Env{Stdout: stdout, Stderr: stderr, Environ: environ}}, stdout, stderr
}

func pretty(t *testing.T, data []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// What differs from run to run and from place to place.
var varying = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z+0-9]+`), "DATE TIME ZONE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(` +[0-9a-z]+ ago`), " AGE ago"},
}

// golden compares a text with a file of testdata/golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	for _, v := range varying {
		got = v.what.ReplaceAllString(got, v.with)
	}
	goldenfile.Compare(t, filepath.Join("golden", name), got)
}
