package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
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
	where slotsDir // the boulder's directory
	lease string   // of that directory
	dir   string   // the top of its work tree
	setup []string // marker.Ignored
	// foreign: another boulder left it, and this one has not made it its own yet.
	foreign bool
}

// marker is what the file next to a slot says. Without the file or an owner, the slot is half made.
type marker struct {
	Owner   string `json:"owner"` // sub-task
	Attempt int    `json:"attempt"`
	From    string `json:"from"`
	Lease   string `json:"lease,omitempty"`  // of the boulder whose slot it is
	SetUp   string `json:"set_up,omitempty"` // the hash of what set-up depends on
	// Ignored is what git ignores and set-up made: files, and directories of nothing else, which end with a slash.
	Ignored []string `json:"ignored,omitempty"`
	Made    []string `json:"made,omitempty"` // those of Ignored that its commands made, and that are not all copied
	Keep    []string `json:"keep,omitempty"` // what SetUp.Keep was, if it names all of Made
}

// readMarker returns the marker of a slot; one without From if there is none, or it cannot be read.
func readMarker(parent *os.Root, slot string) (m marker) {
	data, err := statedir.Read(parent, slot+".json")
	if err != nil || json.Unmarshal(data, &m) != nil {
		return marker{}
	}
	return m
}

// Dir returns where a sub-task works: the place of the project's directory in the clone.
func (s *Slot) Dir() string { return s.git.dir }

// From returns the commit that the slot's work is based on.
func (s *Slot) From() string { return s.claim.From }

func refOf(boulderID string, rest ...string) string {
	return "refs/manager/" + boulderID + "/" + strings.Join(rest, "/")
}

// Prepare returns a slot that is ready for an attempt: at From, with the work of earlier attempts of the sub-task
// merged onto it, conflict markers included. A slot that the sub-task already works in stays as it is. Work of another
// sub-task is captured first. It may be called again after a crash at any point.
func (s *Slots) Prepare(ctx context.Context, c boulder.SlotClaim) (*Slot, error) {
	making, _ := s.making.LoadOrStore(c.BoulderID+"/"+strconv.Itoa(c.Slot), new(sync.Mutex))
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
	where, lease, parent, err := s.openDir(c.BoulderID)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	name := strconv.Itoa(c.Slot)
	m := readMarker(parent, name)
	x := &Slot{slots: s, claim: c, where: where, lease: lease, dir: filepath.Join(where.path(), name), foreign: m.Lease != lease}
	if x.foreign { // what it has is captured, or it would not have been given back
		m.Owner, m.Attempt = "", 0
	}
	// The agent may have put a link or a file in the slot's place.
	if info, err := parent.Lstat(name); m.From == "" || err != nil || !info.IsDir() { // half made, or not at all
		m = marker{}
		if err := errors.Join(x.mark(m), x.renew(parent)); err != nil {
			return nil, err
		}
	}
	x.Workspace = s.in(x.dir)
	newest, _, err := s.newest(ctx, c)
	if err != nil {
		return nil, err
	}
	// If there is a newer attempt than the slot's, it worked in another slot.
	refill := m.Owner == "" || m.Owner != c.SubTaskID || m.From != c.From || m.Attempt <= c.Since || m.Attempt < newest
	if refill {
		if err := x.refill(ctx, parent, &m); err != nil {
			return nil, err
		}
	}
	if err := makeTempDir(x.dir); err != nil {
		return nil, err
	}
	// If the project has been moved, its objects are elsewhere.
	if of := s.sharedBy(filepath.Join(x.dir, ".git")); !refill && of != "" && of != s.project.git.dir {
		if err := x.repository(ctx); err != nil {
			return nil, err
		}
	}
	if refill {
		if m, err = x.prepareIgnored(ctx, m); err != nil {
			return nil, err
		}
	}
	x.setup = m.Ignored
	m.Owner, m.Attempt, m.From, m.Lease = c.SubTaskID, c.Attempt, c.From, lease
	return x, x.mark(m)
}

// Ignored returns what git ignores in the slot and set-up did not make: files, and directories of many, which end with a
// slash. They do not belong to what is captured.
func (s *Slot) Ignored(ctx context.Context) (names []string, err error) {
	all, err := s.ignored(ctx)
	for _, name := range all {
		if strings.HasSuffix(name, "/") {
			names = append(names, filesBelow(s.dir, name)...)
		} else {
			names = append(names, name)
		}
	}
	return names, err
}

// filesBelow returns the files of a directory, or if they are many, the directory.
func filesBelow(root, dir string) (files []string) {
	const few = 10
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
		switch name, relErr := filepath.Rel(root, path); {
		case err != nil || relErr != nil || len(files) == few && !entry.IsDir():
			return cmp.Or(err, relErr, fs.SkipAll)
		case !entry.IsDir():
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil || len(files) == 0 || len(files) == few {
		return []string{dir}
	}
	return files
}

// ignored is Ignored with directories of nothing else as one, whatever they hold.
func (s *Slot) ignored(ctx context.Context) (names []string, err error) {
	out, err := s.top().output(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	return slices.DeleteFunc(records(out), func(name string) bool { return slices.Contains(s.setup, name) }), err
}

// refill captures what the attempt before left in the slot, and makes it ready for the next.
func (s *Slot) refill(ctx context.Context, parent *os.Root, m *marker) error {
	kept := false
	if m.Owner != "" {
		previous := *s
		previous.claim.SubTaskID, previous.claim.Attempt, previous.claim.From = m.Owner, m.Attempt, m.From
		_, _, err := previous.Capture(ctx, "")
		unstored, partly := errors.AsType[*boulder.UnstoredError](err)
		if kept = partly && len(unstored.Lacks) > 0; kept {
			err = previous.keepAside(parent, unstored)
		}
		if err != nil && (kept || !partly) {
			return err
		}
	}
	if err := errors.Join(s.mark(marker{}), os.RemoveAll(tempDir(s.dir))); err != nil {
		return err
	}
	if !kept {
		if err := s.fill(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	// The slot is away, or has something that cannot be replaced, such as files of another user.
	m.SetUp, m.Ignored, m.Made, m.Keep = "", nil, nil, nil
	if err := s.renew(parent); err != nil {
		return err
	}
	return s.fill(ctx)
}

// renew makes the directory of a slot anew.
func (s *Slot) renew(parent *os.Root) error {
	name := filepath.Base(s.dir)
	if err := errors.Join(discard(parent, name), discard(parent, name+".index")); err != nil {
		return err
	}
	return parent.Mkdir(name, 0o700)
}

// keepAside moves a slot that has files which are nowhere else to where nothing removes it.
func (s *Slot) keepAside(parent *os.Root, cause *boulder.UnstoredError) error {
	aside := fmt.Sprintf("%s%d-%s-%d-%s", keptPrefix, s.claim.Slot, s.claim.SubTaskID, s.claim.Attempt,
		strconv.FormatInt(time.Now().UnixNano(), 36))
	err := parent.Rename(filepath.Base(s.dir), aside)
	if err == nil && s.slots.OnKept != nil {
		s.slots.OnKept(filepath.Join(filepath.Dir(s.dir), aside), cause.Lacks)
	}
	return err
}

// keptPrefix begins the names of what keepAside moved away.
const keptPrefix = "kept-"

func (s *Slot) mark(m marker) error {
	data, err := json.Marshal(m)
	if err == nil {
		err = s.where.write(filepath.Base(s.dir)+".json", data)
	}
	return err
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
	if err := os.Remove(s.index + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a killed manager
		return err
	}
	if err := s.dropRepositories(ctx); err != nil {
		return err
	}
	into := s.top()
	_, err := into.output(ctx, "read-tree", "--reset", "-u", tree)
	if exitCode(err) == exitFatal { // a filter fails: the files are stored as they were on disk, or the gates say so
		if into, err = into.withoutFilters(ctx); err == nil {
			_, err = into.output(ctx, "read-tree", "--reset", "-u", tree)
		}
	}
	if err != nil {
		return err
	}
	if _, err := into.output(ctx, "clean", "-ffdq"); err != nil {
		return err
	}
	if s.foreign {
		if err := s.slots.sweep(ctx, s.dir); err != nil {
			return err
		}
	}
	if err := s.repository(ctx); err != nil {
		return err
	}
	return os.MkdirAll(s.Dir(), 0o700)
}

// dropRepositories removes the repositories that an agent made between the slot's files. Git removes only those of which it
// tracks no file.
func (s *Slot) dropRepositories(ctx context.Context) error {
	list, err := s.top().output(ctx, "ls-files", "-z")
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(s.dir) // a directory may have become a link that leads out of it
	if err != nil {
		return err
	}
	defer root.Close()
	seen := map[string]bool{".": true}
	for _, file := range records(list) {
		for dir := path.Dir(file); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			_ = root.RemoveAll(dir + "/.git")
		}
	}
	return nil
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

// Capture commits a snapshot of the slot on top of From, with a ref in the project. An empty tree: the present files; a
// [boulder.UnstoredError] then comes with the commit.
func (s *Slot) Capture(ctx context.Context, tree string) (commit, captured string, err error) {
	var incomplete error
	if tree == "" {
		tree, err = s.Snapshot(ctx)
		if _, partly := errors.AsType[*boulder.UnstoredError](err); partly {
			incomplete, err = err, nil
		}
		if err != nil {
			return "", "", err
		}
	}
	c, attempt := s.claim, strconv.Itoa(s.claim.Attempt)
	if commit, err = s.slots.project.commit(ctx, tree, c.From, c.SubTaskID+", attempt "+attempt, time.Unix(0, 0)); err == nil {
		_, err = s.slots.project.git.output(ctx, "update-ref", refOf(c.BoulderID, c.SubTaskID, attempt), commit)
	}
	return commit, tree, cmp.Or(err, incomplete)
}

// Lay writes the files of a tree into the slot, but takes paths from From, which must have them.
func (s *Slot) Lay(ctx context.Context, tree string, paths []string) error {
	args := []string{"checkout", "--quiet", s.claim.From, "--"}
	for _, path := range paths {
		args = append(args, ":(top,literal)"+s.prefix+path)
	}
	return s.top().each(ctx, []string{"read-tree", "--reset", "-u", tree}, args)
}

// in returns the workspace of a slot. Its git commands use the project's repository, with an index that agents do not
// have, and files of the slot: what an agent does to the slot's own repository cannot lead them astray.
func (s *Slots) in(dir string) *Workspace {
	p, index := s.project, dir+".index"
	return &Workspace{
		git: git{
			dir: filepath.Join(dir, filepath.FromSlash(p.prefix)), index: index,
			env: []string{"GIT_DIR=" + p.gitDir, "GIT_WORK_TREE=" + dir},
		},
		root: dir, prefix: p.prefix, index: index, gitDir: p.gitDir, scope: p.scope, large: keepLarge, slot: true,
	}
}

// repository gives the slot's files a fresh repository for agents and gates, at From.
func (s *Slot) repository(ctx context.Context) error {
	model, err := s.slots.model(ctx, filepath.Dir(s.dir), s.claim.Base)
	if err != nil {
		return err
	}
	own := filepath.Join(s.dir, ".git")
	if err := os.RemoveAll(own); err != nil {
		return err
	}
	if err := os.CopyFS(own, os.DirFS(model)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "HEAD"), []byte(s.claim.From+"\n"), 0o600); err != nil {
		return err
	}
	return copyIndex(s.index, filepath.Join(own, "index"))
}

// model returns the repository that slots of a boulder get a copy of. It shares the project's objects and has its
// branches, tags and settings, but nowhere to push to. It is made again if the project has been moved since.
func (s *Slots) model(ctx context.Context, parent, base string) (dir string, err error) {
	s.pinning.Lock()
	defer s.pinning.Unlock()
	dir = filepath.Join(parent, "repository")
	if s.sharedBy(dir) == s.project.git.dir {
		return dir, nil
	}
	made, err := os.MkdirTemp(parent, ".gone-") // removed with the slots if this process dies
	if err != nil {
		return "", err
	}
	if err := errors.Join(s.makeModel(ctx, made, base), os.RemoveAll(dir)); err != nil {
		return "", errors.Join(err, os.RemoveAll(made))
	}
	return dir, os.Rename(made, dir)
}

// sharedBy returns the project whose objects a repository for slots shares; empty if there is none, or it does not say.
func (s *Slots) sharedBy(dir string) string {
	data, _ := os.ReadFile(filepath.Join(dir, projectFile)) // it may not be there
	return string(data)
}

// projectFile names, in a repository for slots, the project.
const projectFile = "manager-project"

func (s *Slots) makeModel(ctx context.Context, dir, base string) error {
	p := s.project
	out, err := p.git.output(ctx, "rev-parse", "--path-format=absolute", "--git-path", "objects", "--git-path", "info/exclude",
		"--git-path", "lfs", "--show-object-format")
	about := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if err == nil && len(about) != 4 {
		err = fmt.Errorf("git does not say where its objects are: %q", out)
	}
	if err != nil {
		return err
	}
	g := git{dir: dir, env: []string{"GIT_DIR=" + dir}}
	if _, err := g.output(ctx, "init", "--quiet", "--template=", "--object-format="+about[3]); err != nil {
		return err
	}
	exclude, err := os.ReadFile(about[1])
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Tools look at refs: git describe, nx, turbo, `git diff main`.
	refs, err := p.git.output(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/remotes", "refs/tags")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "info"), 0o700); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"objects/info/alternates": about[0] + "\n", "info/exclude": string(exclude), "packed-refs": refs, "HEAD": base + "\n",
		projectFile: p.git.dir,
	} {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(content), 0o600); err != nil {
			return err
		}
	}
	settings := [][]string{
		{"config", "core.bare", "false"}, {"config", "lfs.storage", about[2]},
		// An agent cannot type a passphrase.
		{"config", "commit.gpgsign", "false"}, {"config", "tag.gpgsign", "false"},
	}
	// What affects commits and files, and the remotes, to which nothing can be pushed.
	configured, err := p.git.query(ctx, "config", "--local", "-z", "--get-regexp",
		`^(user|filter|merge)\.|^core\.(autocrlf|eol|excludesfile|attributesfile)$|^remote\..*\.(url|fetch)$`)
	if err != nil {
		return err
	}
	for _, entry := range records(configured) {
		key, value, _ := strings.Cut(entry, "\n")
		settings = append(settings, []string{"config", "--add", key, value})
		if remote, url := strings.CutSuffix(key, ".url"); url {
			settings = append(settings, []string{"config", remote + ".pushurl", "slots-do-not-push"})
		}
	}
	return g.each(ctx, settings...)
}
