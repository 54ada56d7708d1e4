package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
)

// Slot is a slot that is ready. It is a workspace of its own.
type Slot struct {
	*Workspace
	slots *Slots
	claim boulder.SlotClaim
	dir   string // the top of its work tree
}

// marker is what the file next to a slot says. Without the file or an owner, the slot is half made.
type marker struct {
	Owner   string `json:"owner"` // sub-task
	Attempt int    `json:"attempt"`
	From    string `json:"from"`
	SetUp   string `json:"set_up,omitempty"` // what Slot.setUp returned
}

// Dir returns where a sub-task works: the place of the project's directory in the clone.
func (s *Slot) Dir() string { return s.git.dir }

// From returns the commit that the slot's work is based on.
func (s *Slot) From() string { return s.claim.From }

func (s *Slots) dirOf(boulderID string) string {
	return filepath.Join(s.project.git.dir, stateDir, "slots", boulderID)
}

func refOf(boulderID string, rest ...string) string {
	return "refs/manager/" + boulderID + "/" + strings.Join(rest, "/")
}

// Prepare returns a slot that is ready for an attempt: at From, with the work of earlier attempts of the sub-task
// merged onto it, conflict markers included. A slot that the sub-task already works in stays as it is. Work of another
// sub-task is captured first. It may be called again after a crash at any point.
func (s *Slots) Prepare(ctx context.Context, c boulder.SlotClaim) (*Slot, error) {
	making, _ := s.making.LoadOrStore(filepath.Join(s.dirOf(c.BoulderID), strconv.Itoa(c.Slot)), new(sync.Mutex))
	making.(*sync.Mutex).Lock()
	defer making.(*sync.Mutex).Unlock()
	slot, err := s.prepare(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("slot %d of boulder %s: %w", c.Slot, c.BoulderID, err)
	}
	return slot, nil
}

func (s *Slots) prepare(ctx context.Context, c boulder.SlotClaim) (*Slot, error) {
	if boulder.ReservedID(c.SubTaskID) {
		return nil, fmt.Errorf("a sub-task of an isolated run cannot have the id %q: give it another one in the plan", c.SubTaskID)
	}
	if !s.Has(ctx, c.From) {
		return nil, fmt.Errorf("%w: the project does not have commit %s, from which it works; an export leaves commits out: continue it where it ran",
			boulder.ErrSlots, c.From)
	}
	if err := s.pin(ctx, c); err != nil {
		return nil, err
	}
	parent, err := statedir.Open(s.project.git.dir, stateDir, "slots", c.BoulderID)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	name := strconv.Itoa(c.Slot)
	var m marker
	if data, err := parent.ReadFile(name + ".json"); err == nil && json.Unmarshal(data, &m) != nil {
		m = marker{}
	}
	x := &Slot{slots: s, claim: c, dir: filepath.Join(s.dirOf(c.BoulderID), name)}
	if _, err := parent.Stat(name); m.From == "" || err != nil { // half made, or not at all
		m = marker{}
		if err := errors.Join(x.mark(m), discard(parent, name)); err != nil {
			return nil, err
		}
		if err := x.clone(ctx, c.Base); err != nil {
			return nil, err
		}
	}
	// A slot without its .git must not be taken for the project around it.
	env := []string{"GIT_CEILING_DIRECTORIES=" + s.dirOf(c.BoulderID)}
	dir := filepath.Join(x.dir, filepath.FromSlash(s.project.prefix))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if x.Workspace, err = open(ctx, dir, env, s.project.scope); err != nil {
		return nil, err
	}
	if x.reason != "" {
		return nil, fmt.Errorf("%s is no repository any more (%s): save what you need of it, remove it, then run `manager resume`",
			x.dir, x.reason)
	}
	x.large = keepLarge
	newest, _, err := s.newest(ctx, c)
	if err != nil {
		return nil, err
	}
	// If there is a newer attempt than the slot's, it worked in another slot.
	refill := m.Owner == "" || m.Owner != c.SubTaskID || m.From != c.From || m.Attempt <= c.Since || m.Attempt < newest
	if refill {
		if m.Owner != "" {
			previous := *x
			previous.claim.SubTaskID, previous.claim.Attempt, previous.claim.From = m.Owner, m.Attempt, m.From
			if _, _, err := previous.Capture(ctx, ""); err != nil {
				return nil, err
			}
		}
		if err := x.mark(marker{}); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(tempDir(x.dir)); err != nil {
			return nil, err
		}
		if err := x.fill(ctx); err != nil {
			return nil, err
		}
	}
	if err := makeTempDir(x.dir); err != nil {
		return nil, err
	}
	if refill {
		if m.SetUp, err = x.setUp(ctx, m.SetUp); err != nil {
			return nil, err
		}
	}
	return x, x.mark(marker{Owner: c.SubTaskID, Attempt: c.Attempt, From: c.From, SetUp: m.SetUp})
}

func (s *Slot) mark(m marker) error {
	data, err := json.Marshal(m)
	if err == nil {
		err = statedir.Write(s.slots.project.git.dir, markerOf(s.claim.BoulderID, s.claim.Slot), data)
	}
	return err
}

func markerOf(boulderID string, slot int) string {
	return strings.Join([]string{stateDir, "slots", boulderID, strconv.Itoa(slot) + ".json"}, "/")
}

// discard moves a half-made slot away before it is removed, since a child of a killed manager may still write into it.
func discard(parent *os.Root, name string) error {
	trash := ".gone-" + name + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := parent.Rename(name, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = parent.RemoveAll(trash) // leftovers are removed with the boulder's slots
	return nil
}

// fill puts the files of From into the slot, with the newest work of the sub-task merged onto them.
func (s *Slot) fill(ctx context.Context) error {
	tree := s.claim.From + "^{tree}"
	if _, work, err := s.slots.newest(ctx, s.claim); err != nil {
		return err
	} else if work != "" {
		m, err := s.slots.apply(ctx, s.claim.From, work)
		if err != nil {
			return err
		}
		tree = m.tree
	}
	for _, name := range []string{"rebase-merge", "rebase-apply", "sequencer", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "index.lock"} {
		if err := os.RemoveAll(filepath.Join(s.dir, ".git", name)); err != nil { // of the agent before
			return err
		}
	}
	if err := s.top().each(ctx,
		[]string{"update-ref", "-d", "refs/stash"},
		[]string{"checkout", "--quiet", "--force", "--detach", s.claim.From},
		[]string{"read-tree", "--reset", "-u", tree},
		[]string{"clean", "-ffdq"},
	); err != nil {
		return err
	}
	return os.MkdirAll(s.Dir(), 0o700)
}

// newest returns the newest attempt of a sub-task that left work, and its commit, which is empty if there is none.
func (s *Slots) newest(ctx context.Context, c boulder.SlotClaim) (last int, commit string, err error) {
	if c.SubTaskID == "" {
		return 0, "", nil
	}
	refs, err := s.project.git.refs(ctx, refOf(c.BoulderID, c.SubTaskID))
	last = c.Since
	for ref, id := range refs {
		if n, err := strconv.Atoi(path.Base(ref)); err == nil && n > last {
			last, commit = n, id
		}
	}
	return last, commit, err
}

// Capture commits a snapshot of the slot on top of From, with a ref in the project. An empty tree: the present files.
func (s *Slot) Capture(ctx context.Context, tree string) (commit, captured string, err error) {
	if tree == "" {
		if tree, err = s.Snapshot(ctx); err != nil {
			return "", "", err
		}
	}
	c, attempt := s.claim, strconv.Itoa(s.claim.Attempt)
	commit, err = s.share(ctx, tree, c.SubTaskID+", attempt "+attempt, ":"+refOf(c.BoulderID, c.SubTaskID, attempt))
	return commit, tree, err
}

// share commits a snapshot of the slot on top of From, and fetches it into the project, as ref (with a colon) if any.
func (s *Slot) share(ctx context.Context, tree, message, ref string) (commit string, err error) {
	if commit, err = s.commit(ctx, tree, s.claim.From, message, time.Unix(0, 0)); err != nil {
		return "", err
	}
	_, err = s.slots.project.git.output(ctx, "-c", "protocol.version=2", "fetch", "--quiet", "--no-tags",
		"--no-write-fetch-head", "--no-recurse-submodules", s.dir, "+"+commit+ref)
	return commit, err
}

// Lay writes the files of a tree into the slot, but takes paths from From, which must have them.
func (s *Slot) Lay(ctx context.Context, tree string, paths []string) error {
	if _, err := s.top().output(ctx, "read-tree", "--reset", "-u", tree); err != nil {
		return err
	}
	args := []string{"checkout", "--quiet", s.claim.From, "--"}
	for _, path := range paths {
		args = append(args, ":(literal)"+path)
	}
	_, err := s.git.output(ctx, args...)
	return err
}

// Shared stores a snapshot of the slot in the project, where nothing refers to it.
func (s *Slot) Shared(ctx context.Context) (tree string, err error) {
	if tree, err = s.Snapshot(ctx); err == nil {
		_, err = s.share(ctx, tree, "generated files", "")
	}
	return tree, err
}

// clone makes a slot's repository, without files. `git clone --shared` would add a push remote and tracking branches.
func (s *Slot) clone(ctx context.Context, base string) error {
	p := s.slots.project
	out, err := p.git.output(ctx, "rev-parse", "--path-format=absolute", "--git-path", "objects", "--git-path", "info/exclude",
		"--git-path", "lfs", "--show-object-format")
	about := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if err == nil && len(about) != 4 {
		err = fmt.Errorf("git does not say where its objects are: %q", out)
	}
	if err != nil {
		return err
	}
	if _, err := p.git.output(ctx, "init", "--quiet", "--template=", "--object-format="+about[3], s.dir); err != nil {
		return err
	}
	g := git{dir: s.dir, env: []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(s.dir)}}
	exclude, err := os.ReadFile(about[1])
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	inGit := func(name string) string { return filepath.Join(s.dir, ".git", filepath.FromSlash(name)) }
	if err := os.MkdirAll(inGit("info"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(inGit("objects/info/alternates"), []byte(about[0]+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(inGit("info/exclude"), exclude, 0o600); err != nil {
		return err
	}
	err = g.each(ctx,
		[]string{"update-ref", "--no-deref", "HEAD", base},
		[]string{"config", "lfs.storage", about[2]},
		// Tools look at refs: git describe, nx, turbo, `git diff main`.
		[]string{"fetch", "--quiet", "--no-write-fetch-head", "--update-head-ok", "--no-recurse-submodules", p.root,
			"+refs/heads/*:refs/heads/*", "+refs/remotes/*:refs/remotes/*", "+refs/tags/*:refs/tags/*"})
	if err == nil {
		err = s.configure(ctx, g)
	}
	return err
}

// configure copies the settings that affect commits and files, and the remotes, to which nothing can be pushed.
func (s *Slot) configure(ctx context.Context, g git) error {
	out, err := s.slots.project.git.query(ctx, "config", "--local", "-z", "--get-regexp",
		`^(user|filter|merge)\.|^core\.(autocrlf|eol|excludesfile|attributesfile)$|^remote\..*\.(url|fetch)$`)
	if err != nil {
		return err
	}
	for _, entry := range records(out) {
		key, value, _ := strings.Cut(entry, "\n")
		if _, err := g.output(ctx, "config", "--add", key, value); err != nil {
			return err
		}
		if remote, url := strings.CutSuffix(key, ".url"); url {
			if _, err := g.output(ctx, "config", remote+".pushurl", "slots-do-not-push"); err != nil {
				return err
			}
		}
	}
	return nil
}
