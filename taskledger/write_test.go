package taskledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/taskledger"
	"github.com/bouldermgr/manager/testkit/golden"
)

func smallPlan() *boulder.Plan {
	return &boulder.Plan{Task: "Add dark mode", SubTasks: []boulder.Spec{{Description: "Do it"}}}
}

// TestWriteFile: a plan file is readable by its owner only, and replaced as a whole. Of a link, the target is replaced.
func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "link.yaml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for i, at := range []string{path, path, link} {
		plan := smallPlan()
		plan.Task = fmt.Sprint("Task ", i)
		if err := taskledger.WriteFile(at, plan, nil); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if back, err := taskledger.ReadFile(path); err != nil || back.Task != plan.Task {
			t.Errorf("%v %+v", err, back)
		}
	}
	if to, err := os.Readlink(link); err != nil || to != path {
		t.Errorf("the link leads to %q: %v", to, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestWriteFileRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                                  "is a directory: name a file in it",
		filepath.Join(dir, "none", "p.yaml"): "there is no directory",
		dangling:                             "leads nowhere",
		filepath.Join(file, "p.yaml"):        "not a directory",
		"/dev/null":                          "not a regular file",
	} {
		if err := taskledger.WriteFile(path, smallPlan(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := taskledger.WriteFile(filepath.Join(dir, "p.yaml"), &boulder.Plan{Task: "x"}, nil); err == nil {
		t.Error("a plan without sub-tasks was written")
	}
}

// TestFormatRefusesWhatYAMLCannotHold: such a text is refused when the file is written, not when it is run.
func TestFormatRefusesWhatYAMLCannotHold(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"NUL": "a\x00b", "invalid UTF-8": "a\xffb"} {
		p := smallPlan()
		p.SubTasks[0].Gates = []string{text}
		if data, err := taskledger.Format(p); err == nil {
			t.Errorf("%s: %s", name, data)
		}
	}
}

func TestFormatGolden(t *testing.T) {
	t.Parallel()
	p := taskledger.Seal(&boulder.Plan{
		Task: "Add dark mode", Goal: "The app has a dark mode", Constraints: []string{"never touch vendor/"},
		Facts: boulder.Facts{Given: []string{"there is a settings page"}}, Model: "anthropic/claude-sonnet-4-5",
		DoneWhen: []string{boulder.DoneTests, boulder.DoneJudge},
		SubTasks: []boulder.Spec{
			{
				ID: "toggle", Subject: "Add the settings toggle", ActiveForm: "Adding the settings toggle",
				Description:     "Add a toggle.\n\n  - off by default\n  - saved\n",
				SuccessCriteria: []string{"The toggle is saved: and restored"}, Priority: boulder.High,
				Gates: []string{"go test ./settings/...", `grep -q "dark" settings.go`}, NoWorse: []string{"npm test"},
				Outputs:        []string{"its name"},
				ExpectsChanges: true,
			},
			{
				ID: "2", Description: "Wire it up", DependsOn: []string{"toggle"}, Model: "a/b:free", Agent: "build",
				EmptyOK: true, DoneWhen: []string{boulder.DoneJudge, boulder.DoneTodos},
				Budget: &boulder.Budget{
					Attempts: 2, Time: boulder.Duration(30 * time.Minute), Tokens: 500_000, Cost: 2.5, Calls: 100,
				},
			},
		},
	}, boulder.OriginModel, "openai/gpt", time.Unix(1_700_000_000, 0))
	p.Seal.Base = "0123abc"
	got, err := taskledger.Format(p)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "plan.golden.yaml", string(got))
}
