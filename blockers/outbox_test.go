package blockers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// editors are ways in which programs save a file that they have read. Each is given the text to be saved.
var editors = map[string]func(path, text string) error{
	"in place": func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) },
	"in pieces": func(path, text string) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		for ; text != ""; text = text[min(len(text), 64):] {
			if _, err := f.WriteString(text[:min(len(text), 64)]); err != nil {
				return err
			}
		}
		return nil
	},
	"by renaming": func(path, text string) error {
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	},
	"with a backup": func(path, text string) error {
		if err := os.Rename(path, path+"~"); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(text), 0o600)
	},
	"cut at the end": func(path, text string) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			return err
		}
		return f.Truncate(int64(len(text)))
	},
}

// present fails unless the items of all blockers are in the file from end to end.
func (p *project) present(t testing.TB, d *Desk) {
	t.Helper()
	text := p.file(t)
	for _, b := range listed(t, d, Filter{}) {
		if !strings.Contains(text, raisedItem(&b).Text) {
			t.Errorf("%s is not in the file", b.ID)
		}
		if b.Status.Settled() && !strings.Contains(text, settledItem(&b).Text) {
			t.Errorf("the answer to %s is not in the file", b.ID)
		}
	}
}

// An editor that saves what it read before, at the worst moments: nothing of what the person wrote is lost.
func TestEditorsThatSaveOldText(t *testing.T) {
	t.Parallel()
	for name, save := range editors {
		for _, step := range []string{"committed", "appending", "looked", "appended"} {
			t.Run(name+"/"+step, func(t *testing.T) {
				t.Parallel()
				p := newProject(t)
				d := p.desk(t)
				raise(t, d, hardInput("The first?"))
				path := filepath.Join(p.dir, DefaultFile)
				const note = "  - We have to talk about it on Monday.\n"
				old := strings.Replace(p.file(t), "[ ]", "[x]", 1) + note
				saved := false
				d.failpoint = func(at string) {
					if at != step || saved {
						return
					}
					saved = true
					if err := save(path, old); err != nil {
						t.Error(err)
					}
				}
				raise(t, d, softInput("The second?"))
				listed(t, p.desk(t), Filter{}) // any process
				got := p.file(t)
				if !saved || !strings.Contains(got, "[x] **B1**") || !strings.Contains(got, note) {
					t.Errorf("saved: %v; what the person wrote is lost:\n%s", saved, got)
				}
				if n := strings.Count(got, "**B2**"); step != "appended" && n != 1 {
					t.Errorf("the second is there %d times:\n%s", n, got)
				}
			})
		}
	}
}

// What a person takes out is not put back.
func TestWhatPeopleTakeOut(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.desk(t)
	raise(t, d, hardInput("The first?"))
	p.write(t, "# Mine\n")
	raise(t, d, hardInput("The second?"))
	if got := p.file(t); strings.Contains(got, "The first?") || !strings.Contains(got, "The second?") ||
		!strings.HasPrefix(got, "# Mine\n\n## Hard blockers\n\n- [ ] **B2**") {
		t.Errorf("%s", got)
	}
	if err := os.Remove(filepath.Join(p.dir, DefaultFile)); err != nil {
		t.Fatal(err)
	}
	raise(t, d, hardInput("The third?"))
	if got := p.file(t); !strings.HasPrefix(got, "# Blockers\n") || strings.Count(got, "- [ ] ") != 1 {
		t.Errorf("a new file: %s", got)
	}
}

// What cannot be written is told, kept over restarts, and written with the next operation of any kind once it can be
// (SC-009: within three tries; this takes one). Nothing else depends on it.
func TestUnwritableList(t *testing.T) {
	t.Parallel()
	for name, operation := range map[string]func(*Desk) error{
		"list":   func(d *Desk) error { _, err := d.List(t.Context(), Filter{}); return err },
		"get":    func(d *Desk) error { _, err := d.Get(t.Context(), "B1"); return err },
		"status": func(d *Desk) error { _, err := d.Status(t.Context()); return err },
		"raised": func(d *Desk) error { _, err := d.Raised(t.Context(), boulder.BlockerScope{}); return err },
		"open":   func(d *Desk) error { _, err := d.Undelivered(t.Context(), ""); return err },
		"raise":  func(d *Desk) error { _, _, err := d.Raise(t.Context(), scope, hardInput("Then?")); return err },
		"switch": func(d *Desk) error { return d.Switch(t.Context(), "", ptr(true)) },
		"flush":  func(d *Desk) error { return d.Flush(t.Context()) },
		"divert": func(d *Desk) error { _, err := d.Divert(t.Context(), permission("per_9", "ls")); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			path := filepath.Join(p.dir, DefaultFile)
			if err := os.Mkdir(path, 0o700); err != nil { // as good as a full disk: nothing can be written there
				t.Fatal(err)
			}
			d := p.desk(t)
			raise(t, d, hardInput("The first?"))
			raise(t, d, softInput("The second?"))
			settle(t, d, "B1", Settlement{Status: boulder.BlockerAnswered, Answer: "Yes."})
			for range 3 {
				s := status(t, p.desk(t))
				if s.Unwritten != 3 || !strings.Contains(s.Trouble, "not a regular file") {
					t.Fatalf("%+v", s)
				}
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			after := p.desk(t)
			if err := operation(after); err != nil {
				t.Fatal(err)
			}
			p.present(t, after)
			if got := p.file(t); strings.Count(got, "**B1** ") != 1 || strings.Count(got, "\n## ") != strings.Count(got, "\n\n## ") {
				t.Errorf("%s", got)
			}
			if s := status(t, after); s.Unwritten != 0 || s.Trouble != "" {
				t.Errorf("%+v", s)
			}
		})
	}
}
