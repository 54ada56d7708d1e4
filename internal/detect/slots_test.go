package detect

import (
	"reflect"
	"testing"
	"testing/fstest"
)

func TestUnmade(t *testing.T) {
	t.Parallel()
	project := fstest.MapFS{"web/package.json": {}}
	got := Unmade(project, []string{"node_modules/", "web/node_modules/", "a/.venv/", "target/", ".env"})
	if want := []string{"node_modules/", "a/.venv/"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestForSlots(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files, ignored []string
		want           Slots
	}{
		"nothing": {},
		"npm": {[]string{"package.json", "package-lock.json"}, []string{"node_modules/", ".env", "dist/", "npm-debug.log"}, Slots{
			[]string{".env"}, []string{"npm ci"}, []string{"package-lock.json"}, []string{"node_modules"},
		}},
		"npm without a lock file": {[]string{"package.json"}, []string{"node_modules/"}, Slots{
			nil, []string{"npm install --no-package-lock"}, []string{"package.json"}, []string{"node_modules"},
		}},
		"a workspace": {[]string{"pnpm-lock.yaml", "package.json", "a/package.json"}, []string{"a/node_modules/", "node_modules/", "a/.env.local"}, Slots{
			[]string{"a/.env.local"}, []string{"pnpm install --frozen-lockfile"}, []string{"pnpm-lock.yaml"}, []string{"node_modules"},
		}},
		"two packages": {[]string{"web/yarn.lock", "my api/uv.lock"}, []string{"web/node_modules/", "my api/.venv/"}, Slots{
			nil, []string{"cd web && yarn install --frozen-lockfile", "cd 'my api' && uv sync --frozen"}, []string{"web/yarn.lock", "my api/uv.lock"},
			[]string{"node_modules", ".venv"},
		}},
		"pip":             {[]string{"requirements.txt"}, []string{".venv/", "__pycache__/"}, Slots{nil, []string{installs[9].run}, []string{"requirements.txt"}, []string{".venv"}}},
		"cargo":           {[]string{"Cargo.toml", "Cargo.lock"}, []string{"target/"}, Slots{nil, nil, nil, []string{"target"}}},
		"no cargo":        {[]string{"pom.xml"}, []string{"target/"}, Slots{}},
		"bundler":         {[]string{"Gemfile.lock"}, []string{"vendor/bundle/"}, Slots{nil, []string{installs[11].run}, []string{"Gemfile.lock"}, []string{"vendor/bundle"}}},
		"all of vendor":   {[]string{"Gemfile.lock"}, []string{"vendor/"}, Slots{nil, []string{installs[11].run}, []string{"Gemfile.lock"}, []string{"vendor"}}},
		"Go":              {[]string{"go.mod", "go.sum"}, []string{"vendor/"}, Slots{nil, []string{"go mod vendor"}, []string{"go.sum"}, []string{"vendor"}}},
		"made by nothing": {[]string{"README.md"}, []string{"node_modules/", ".venv/", "vendor/", "data/"}, Slots{}},
	} {
		project := fstest.MapFS{}
		for _, file := range test.files {
			project[file] = &fstest.MapFile{Data: []byte("x")}
		}
		if got := ForSlots(project, test.ignored); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
