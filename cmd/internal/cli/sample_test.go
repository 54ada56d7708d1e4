package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/store"
	goldenfile "github.com/bouldermgr/manager/testkit/golden"
	samples "github.com/bouldermgr/manager/testkit/golden/sample"
)

const sampleID = samples.ID

// shortID is what people read of it.
const shortID = "sample"

var sampleStart = samples.Began

type sample struct{ *samples.Boulder }

func newSample(t *testing.T) *sample { return newSampleOf(t, sampleID) }

func newSampleOf(t *testing.T, id string) *sample {
	t.Helper()
	return &sample{samples.New(t, id)}
}

// store writes the sample into a new project and returns its directory.
func (s *sample) store() string {
	s.T.Helper()
	project := s.T.TempDir()
	s.storeIn(project)
	return project
}

func (s *sample) storeIn(project string) {
	s.T.Helper()
	db := openState(s.T, project)
	defer db.Close()
	s.commit(db)
}

func openState(t testing.TB, project string) *store.DB {
	t.Helper()
	dir, err := store.EnsureDir(project)
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(filepath.Join(dir, store.FileName), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// interrupted is a project whose boulder is half done and not run by any process.
func interrupted(t *testing.T) (project string) {
	t.Helper()
	s := newSample(t)
	s.Play()
	return s.store()
}

func (s *sample) commit(db *store.DB) {
	s.T.Helper()
	events := s.State.TakeEvents()
	for i := range events { // as the test has set it
		if b, ok := events[i].Body.(boulder.Created); ok {
			b.Boulder.Project, b.Boulder.Engine = s.State.Boulder.Project, s.State.Boulder.Engine
			events[i].Body = b
		}
	}
	if len(events) > 0 {
		if err := db.Commit(s.T.Context(), s.State, events); err != nil {
			s.T.Fatal(err)
		}
	}
}

func command(project string, args ...string) (stdout, stderr string, code int) {
	var out bytes.Buffer
	stderr, code = commandTo(&out, project, args...)
	return out.String(), stderr, code
}

func commandTo(stdout io.Writer, project string, args ...string) (stderr string, code int) {
	var errs bytes.Buffer
	code = Main(Env{Args: append(args, "-C", project), Stdin: strings.NewReader(""), Stdout: stdout, Stderr: &errs,
		Environ: []string{"HOME=" + filepath.Join(project, "home"), "PATH=" + os.Getenv("PATH")}})
	return errs.String(), code
}

// expect runs a command line and checks its exit code and output, which must not contain what begins with !.
func expect(t *testing.T, project string, code int, args []string, says ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, got := command(project, args...)
	if got != code {
		t.Errorf("%q: exit code %d, want %d: %s%s", args, got, code, stdout, stderr)
	}
	for _, want := range says {
		text, not := strings.CutPrefix(want, "!")
		if strings.Contains(stdout+stderr, text) == not {
			t.Errorf("%q does or does not say %q:\n%s%s", args, text, stdout, stderr)
		}
	}
	return stdout, stderr
}

func checkHarmless(t *testing.T, s string) {
	t.Helper()
	harmful := func(r rune) bool { return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
	if at := strings.IndexFunc(s, harmful); at >= 0 || !utf8.ValidString(s) {
		t.Fatalf("%q holds what a terminal obeys at %d, or is no UTF-8", s, at)
	}
}

// testApp is an app in a project that writes into buffers.
func testApp(t *testing.T, project string, environ ...string) (a *app, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	secrets := secret.New(environ)
	out, errs := guarded{stream: stdout, secrets: secrets}, guarded{stream: stderr, secrets: secrets}
	a = &app{Env: Env{Stdout: out, Stderr: errs, Environ: environ}, secrets: secrets, dir: project}
	if err := a.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.project.Close)
	return a, stdout, stderr
}

// varying has what differs between runs and machines.
var varying = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z+0-9]+`), "DATE TIME ZONE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(` +[0-9a-z]+ ago`), " AGE ago"},
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	for _, v := range varying {
		got = v.what.ReplaceAllString(got, v.with)
	}
	goldenfile.Compare(t, filepath.Join("golden", name), got)
}

// checkTexts checks that there are texts, and what each of them contains and does not contain.
func checkTexts(t *testing.T, what string, has, hasNot []string, all ...string) {
	t.Helper()
	if len(all) == 0 {
		t.Errorf("%s: there is none", what)
	}
	for _, text := range all {
		for _, want := range has {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in:\n%s", what, want, text)
			}
		}
		for _, unwanted := range hasNot {
			if strings.Contains(text, unwanted) {
				t.Errorf("%s: %q is in:\n%s", what, unwanted, text)
			}
		}
	}
}
