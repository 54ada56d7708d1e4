package detect

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Slots are what copies of a project need of the files that git ignores.
type Slots struct {
	Copy      []string // patterns of files to copy
	Setup     []string // commands that make the rest, for `sh -c`, in the project's directory
	SetupWhen []string // files after whose change these run again
	Keep      []string // patterns of what they make, and of what builds make and can go on with
}

// installs are directories that a command makes from a file beside them, or above. The first file that is there counts.
var installs = []struct{ dir, from, run string }{
	{"node_modules", "pnpm-lock.yaml", "pnpm install --frozen-lockfile"},
	{"node_modules", "yarn.lock", "yarn install --frozen-lockfile"},
	{"node_modules", "bun.lock", "bun install --frozen-lockfile"},
	{"node_modules", "bun.lockb", "bun install --frozen-lockfile"},
	{"node_modules", "package-lock.json", "npm ci"},
	{"node_modules", "npm-shrinkwrap.json", "npm ci"},
	{"node_modules", "package.json", "npm install --no-package-lock"},
	{".venv", "uv.lock", "uv sync --frozen"},
	{".venv", "poetry.lock", "POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install"},
	{".venv", "requirements.txt", "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt"},
	{"venv", "requirements.txt", "python3 -m venv venv && venv/bin/pip install -q -r requirements.txt"},
	{"vendor/bundle", "Gemfile.lock", "BUNDLE_PATH=vendor/bundle bundle install"},
	{"vendor", "composer.lock", "composer install --no-interaction"},
	{"vendor", "go.sum", "go mod vendor"},
}

// settings are names of ignored files that people write, and programs read: they are copied.
var settings = []string{
	".env", ".env.*", "*.env", ".envrc", ".npmrc", ".yarnrc", "*.local", "*.local.*", "local.properties", "local_settings.py", "master.key",
	".python-version", ".node-version", ".tool-versions", "mise.toml",
}

// ForSlots says how copies of a project get those of its ignored files that its commands may need: names as git lists them,
// with a slash after a directory. What builds make, such as target, copies make for themselves; Cargo goes on with what is there.
func ForSlots(project fs.FS, ignored []string) (s Slots) {
	for _, name := range ignored {
		name, isDir := strings.CutSuffix(name, "/")
		if !isDir {
			if slices.ContainsFunc(settings, func(p string) bool { like, _ := path.Match(p, path.Base(name)); return like }) {
				s.Copy = append(s.Copy, name)
			}
			continue
		}
		run, from := installed(project, name)
		stays := run != "" || path.Base(name) == "target" && isFile(project, path.Join(path.Dir(name), "Cargo.toml"))
		if run != "" && !slices.Contains(s.Setup, run) {
			s.Setup, s.SetupWhen = append(s.Setup, run), append(s.SetupWhen, from)
		}
		keep := name
		if base := path.Base(name); base != "vendor" && base != "bundle" { // those are common names of what is no package of others
			keep = base
		}
		if stays && !slices.Contains(s.Keep, keep) {
			s.Keep = append(s.Keep, keep)
		}
	}
	return s
}

// installed returns the command that makes an ignored directory, and the file that it makes it from.
func installed(project fs.FS, dir string) (run, from string) {
	for _, i := range installs {
		at, found := strings.CutSuffix("/"+dir, "/"+i.dir)
		if !found && i.dir == "vendor/bundle" && path.Base(dir) == "vendor" { // all of vendor is ignored
			at, found = strings.CutSuffix("/"+dir, "/vendor")
		}
		if !found {
			continue
		}
		for at = path.Join(".", strings.TrimPrefix(at, "/")); ; at = path.Dir(at) {
			if from := path.Join(at, i.from); isFile(project, from) {
				if at != "." {
					return "cd " + quoted(at) + " && " + i.run, from
				}
				return i.run, from
			}
			if at == "." || !strings.HasPrefix(i.dir, "node_modules") { // packages of a workspace are installed at its top
				break
			}
		}
	}
	return "", ""
}

// Unmade returns the directories of installed packages among ignored files that no command is known to make.
func Unmade(project fs.FS, ignored []string) (dirs []string) {
	for _, name := range ignored {
		dir, isDir := strings.CutSuffix(name, "/")
		if run, _ := installed(project, dir); !isDir || run != "" {
			continue
		}
		if slices.Contains([]string{"node_modules", ".venv", "venv"}, path.Base(dir)) {
			dirs = append(dirs, name)
		}
	}
	return dirs
}

func quoted(name string) string {
	if plainWord().MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
