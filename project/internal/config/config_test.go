package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/project/internal/notify"
)

func configOf(t *testing.T, text string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(true, File{Path: path})
}

func TestConfigReaches(t *testing.T) {
	t.Parallel()
	c, err := configOf(t, `
gates: [go vet ./...]
no_worse: [go test ./...]
gate_timeout: 90s
on_ask: allow
budget: {tokens: 2M, cost: 5, time: 8h, attempts: 20, calls: 1.5k}
prices: [{model: "local/*", input: 0, output: 0}]
limits: {providers: {openai: 0}, models: [{pattern: "*opus*", limit: 2}], warn: off, replans: 0, backoff: 2s}
rules: {silence: off, same_output: off, same_error: 0, polling: ["make wait"], wall_clock: 1h}
watch: {skip_agents: [prometheus], same_answers: 3, same_window: off}
blockers:
  enabled: true
  file: docs/night.md
  marker: ALL_DONE!
  soft: [a colour]
  max_per_session: 7
  cooldown: off
  questions: ask
  wait: 5m
  permissions:
    - {permission: bash, pattern: "git push *", action: ask, wait: 30m}
    - {permission: edit, action: allow}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := &boulder.Budget{Tokens: 2e6, Cost: 5, Time: boulder.Duration(8 * time.Hour), Attempts: 20, Calls: 1500}
	if diff := gocmp.Diff(want, c.Budget); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
	limits := &c.Limits
	if limits.Providers["openai"] != 0 || limits.Model("x/opus-5") != 2 || limits.Warn != 0 ||
		limits.Replans != 0 || limits.Backoff != 2*time.Second || limits.Attempts != 3 {
		t.Errorf("limits: %+v", limits)
	}
	r := c.Rules
	if r.Silence != 0 || r.SameOutput >= 0 || r.SameError != 0 || r.WallClock != time.Hour || r.Window != 30 ||
		len(r.Polling) != 1 || !r.Polling[0].MatchString("make wait") {
		t.Errorf("rules: %+v", r)
	}
	if c.OnAsk != executor.AsksAllow || len(c.Gates) != 1 || len(c.NoWorse) != 1 || len(c.Prices) != 1 ||
		c.GateTimeout != 90*time.Second {
		t.Errorf("%+v", c)
	}
	if w := c.Watch; !slices.Equal(w.SkipAgents, []string{"prometheus"}) || w.SameAnswers != 3 || w.SameWindow != 0 {
		t.Errorf("watch: %+v", c.Watch)
	}
	register := blockers.Config{
		Root: "/p", File: "docs/night.md", Enabled: true, Max: 7, Cooldown: -1, Marker: "ALL_DONE!", Soft: []string{"a colour"},
		Policy: blockers.Policy{Questions: blockers.AskMe, Wait: 5 * time.Minute, Permissions: []blockers.Rule{
			{Permission: "bash", Pattern: "git push *", Action: blockers.AskMe, Wait: 30 * time.Minute},
			{Permission: "edit", Action: blockers.Allow},
		}},
	}
	if diff := gocmp.Diff(register, c.Blockers.Register("/p")); diff != "" {
		t.Errorf("blockers (-want +got):\n%s", diff)
	}
}

// notify names the recipient by command, address or environment variable, and the events by a list.
func TestNotifyConfig(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HOOK": "https://hook", "BAD": "S3CR3T"}
	for text, want := range map[string]string{
		"notify: {command: [notify-send, manager]}":  `[notify-send manager] <nil> finished blocked failed budget limited`,
		`notify: {command: "say done | sh"}`:         `[sh -c say done | sh] <nil> finished blocked failed budget limited`,
		"notify: {webhook: https://example.com/x}":   `[] https://example.com/x finished blocked failed budget limited`,
		"notify: {webhook: $HOOK, on: [failed]}":     `[] https://hook failed`,
		`notify: {webhook: "${HOOK}", on: [failed]}`: `[] https://hook failed`,
		"notify: {command: x, on: []}":               `[sh -c x] <nil>`,
		"notify: {command: ''}":                      `[] <nil> finished blocked failed budget limited`,
		"notify: {command:}":                         `[] <nil> finished blocked failed budget limited`,
		"notify: {webhook: $NONE}":                   "notify.webhook is $NONE, and that is not set: set it, or take the webhook out of the configuration",
		"notify: {webhook: $BAD}":                    "notify.webhook is $BAD: the webhook must be an http or https address, like https://example.com/hook",
	} {
		c, err := configOf(t, text)
		if err != nil {
			t.Fatal(err)
		}
		address, err := c.Notify.Address(func(name string) string { return env[name] })
		got := fmt.Sprintf("%v %v", c.Notify.Program(), address)
		for _, e := range []notify.Event{notify.Finished, notify.Blocked, notify.Failed, notify.Budget, notify.Limited} {
			if c.Notify.Wants(e) {
				got += " " + string(e)
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A new rule or limit in the code needs a key, and each key must change its field.
func TestEveryRuleAndLimitHasAKey(t *testing.T) {
	t.Parallel()
	values := map[reflect.Kind]string{
		reflect.Int: "7", reflect.Int64: "7s", reflect.Float64: "0.7", reflect.Map: "{x: 7}", reflect.Slice: "[x]",
	}
	for group, of := range map[string]func(*Config) any{
		"rules":  func(c *Config) any { return c.Rules },
		"limits": func(c *Config) any { return c.Limits },
		"loop":   func(c *Config) any { return c.Loop },
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of(Default()))) {
			if keyOf(f) == "-" {
				continue
			}
			value := values[f.Type.Kind()]
			if f.Name == "Models" {
				value = "[{pattern: x, limit: 7}]"
			}
			c, err := configOf(t, group+": {"+keyOf(f)+": "+value+"}")
			if err != nil {
				t.Errorf("%s.%s has no key that is read: %v", group, f.Name, err)
				continue
			}
			before, after := reflect.ValueOf(of(Default())), reflect.ValueOf(of(c))
			for i := range before.NumField() {
				same := reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface())
				if name := before.Type().Field(i).Name; same != (name != f.Name) {
					t.Errorf("%s.%s: %s is %v", group, keyOf(f), name, after.Field(i))
				}
			}
		}
	}
}

func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(cmp.Or(f.Tag.Get("yaml"), f.Tag.Get("json")), ",")
	return key
}

// An unusable value is refused with its position, in the user's terms, not in Go's.
func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mode: a/b":                         `config.yaml:1:1: there is no key "mode" here: did you mean "model"?`,
		"turn: {silence: 5m}":               `config.yaml:1:1: there is no key "turn" here: remove it, or use one of model, `,
		"limits: {atempts: 3}":              `config.yaml:1:10: there is no key "atempts" in limits: did you mean "attempts"?`,
		"limits: {attempts: many}":          `config.yaml:1:20: limits.attempts must be a whole number of 0 or more, not "many"`,
		"limits: {attempts: -1}":            `a whole number of 0 or more, not "-1"`,
		"limits: {attempts: off}":           `a whole number of 0 or more, not "off"`,
		"limits: {attempts: [3]}":           `config.yaml:1:20: limits.attempts must be a whole number of 0 or more, not a list`,
		"limits: {attempts: 0}":             `config.yaml:1:9: limits: limit attempts is 0: it must be at least 1`,
		"limits: {stalls: 0}":               `limit stalls is 0: it must be at least 1`,
		"limits: {warn: 80}":                `a number from 0 to 1 as 0.8, or off, not "80"`,
		"limits: {providers: {a: }}":        `limits.providers.a must be a whole number of 0 or more, not nothing`,
		"limits: {models: [{limit: 2}]}":    `limits.models needs a pattern and a limit`,
		"limits: 3":                         `config.yaml:1:9: limits must be keys and values, not "3"`,
		"rules: {silence: 5}":               `config.yaml:1:18: rules.silence must be a duration of more than 0 as 90s, 10m or 1h30m, or off`,
		"rules: {silence: 0s}":              `a duration of more than 0`,
		"rules: {silence: {a: b}}":          `not keys and values`,
		"rules: {same_output: never}":       `a whole number of 0 or more, or off, not "never"`,
		"rules: {window: 0}":                `rules.window must be at least 1`,
		"rules: {polling: ['(']}":           `rules.polling[0] must be a regular expression of Go: error parsing regexp: missing closing )`,
		"rules: {polling: x}":               `config.yaml:1:18: rules.polling must be a list, not "x"`,
		"gate_timeout: off":                 `a duration of more than 0 as 90s, 10m or 1h30m, not "off"`,
		"gates: [{a: b}]":                   `gates[0] must be a text, not keys and values`,
		"allow_model_gates: on":             `config.yaml:1:20: allow_model_gates must be true or false, not "on"`,
		"agent: [a, b]":                     `config.yaml:1:8: agent must be a text, not a list`,
		"model: [a/b, b]":                   `config.yaml:1:14: model: "b" names no provider`,
		"model: a/b, a/b":                   `config.yaml:1:8: model: a/b is named twice`,
		"models: {fallback: [a/b, c d/e]}":  `config.yaml:1:26: models.fallback: model reference "c d/e" contains spaces`,
		"model: small":                      `model: "small" names no provider`,
		"on_ask: ask":                       `on_ask must be reject or allow, not "ask"`,
		"budget: {cost: free}":              `an amount of US dollars of more than 0 as 5 or 0.50, not "free"`,
		"budget: {tokens: 0}":               `a number of at least 1 as 1500, 200k or 2M, not "0"`,
		"prices: [{model: a/*}]":            `prices: price 1 (model "a/*"): input is missing`,
		"prices: [{model: a, input: dear}]": `prices[0].input must be a number, not "dear"`,
		"attempts: 3":                       `there is no key "attempts" here: did you mean "limits.attempts" or "budget.attempts"?`,
		"limits: {gates: [a]}":              `there is no key "gates" in limits: did you mean "gates" at the top level?`,
		"limits:\n  global: 3\n  stals: 2":  `config.yaml:3:3: there is no key "stals" in limits: did you mean "stalls"?`,
		"endpoints: [{name: x}]":            `endpoint x: base_url must be a whole address`,
		"gates: [a, b]\nno_worse: [b]":      `the command "b" is in gates and in no_worse`,
		"- model":                           `config.yaml:1:1: the file must be keys and values, not a list`,
		"model: a/b\nmodel: a/c":            `config.yaml:2:1: the key "model" is there twice, first in line 1`,
		"gates: [":                          `config.yaml:2:1: this is not YAML: did not find expected node content`,

		"endpoints: [{name: x, base_url: http://a}, {name: x, base_url: http://b}]": "endpoint x is defined twice",

		"notify: {webhook: ftp://S3CR3T}": "notify.webhook: the webhook must be an http or https address",
		"notify: {on: [done]}":            `notify.on[0] must be finished, blocked, failed, budget or limited, not "done"`,
		"notify: {command: ['', x]}":      "notify.command begins with nothing",
		"notify: {command: {a: b}}":       "notify.command must be a text, not keys and values",
		"notify: {timeout: 0s}":           "a duration of more than 0",
		"notify: {url: x}":                `there is no key "url" in notify`,

		"blockers: {file: ../night.md}":                                         "has to be in the project",
		"blockers: {file: /tmp/b.md}":                                           "has to be in the project",
		"blockers: {file: .manager/b.md}":                                       "is not for people to edit",
		"blockers: {max_per_session: 0}":                                        "blockers.max_per_session must be at least 1",
		"blockers: {questions: allow}":                                          `questions: "allow" is none of deny, ask`,
		"blockers: {enabled: maybe}":                                            "must be true or false",
		"blockers: {wait: 0s}":                                                  "must be a duration",
		"blockers: {cooldown: soon}":                                            "must be a duration of more than 0 as 90s, 10m or 1h30m, or off",
		"blockers: {permissions: [{permission: bash, action: maybe}]}":          `permissions[0]: action "maybe" is none of allow`,
		"blockers: {permissions: [{permission: bash}]}":                         `permissions[0]: action "" is none of`,
		"blockers: {permissions: [{action: deny}]}":                             "permissions[0]: it names no permission",
		"blockers: {permissions: [{permission: a, action: deny, wait: 1m}]}":    "only an ask waits",
		"blockers: {permission: [{permission: a, action: deny, pattern: b}]}":   `did you mean "permissions"?`,
		"blockers: {permissions: [{permission: a, action: deny, patern: bla}]}": `there is no key "patern"`,
	} {
		_, err := configOf(t, text)
		if err == nil {
			t.Errorf("%s: it is taken", text)
			continue
		}
		if _, file := errors.AsType[*yamlfile.Error](err); !file || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: it is said: %v\nand not: %s", text, err, want)
		}
		for _, foreign := range []string{"unmarshal", "Go struct", "interface {}", "uint64"} {
			if strings.Contains(err.Error(), foreign) {
				t.Errorf("%s: it speaks Go: %v", text, err)
			}
		}
	}
}

// All mistakes of a file are reported at once, each only once.
func TestConfigTellsAllMistakes(t *testing.T) {
	t.Parallel()
	_, err := configOf(t, "mode: a/b\nlimits:\n  attempts: 0\n  warn: 80\n  models: [{pattern: x, limit: many}]\non_ask: maybe\n"+
		"done_when: [judge, green]\nnotify: {on: [later]}\n")
	var lines []int
	if file, ok := errors.AsType[*yamlfile.Error](err); ok {
		for _, p := range file.Problems {
			lines = append(lines, p.Line)
		}
	}
	if diff := gocmp.Diff([]int{1, 3, 4, 5, 6, 7, 8}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s\n%v", diff, err)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("rules: {silence: off, polling: [x]}\nlimits: {warn: 0.5}\nbudget: {tokens: 2M}")
	f.Add("limits: &a {models: [{pattern: 'x', limit: 1}]}\nrules: *a")
	f.Fuzz(func(_ *testing.T, text string) {
		_ = Default().read("config.yaml", []byte(text)) // must not panic
	})
}

// The project's file wins over the user's key by key, even over `off`. Lists are replaced as a whole.
func TestConfigLayers(t *testing.T) {
	t.Parallel()
	c := Default()
	for _, text := range []string{
		"rules: {silence: off, same_output: off, wall_clock: 1h}\ngates: [a, b]\nlimits: {replans: 0}",
		"rules: {silence: 9m, same_output: 7}\ngates: [c]",
	} {
		if err := c.read("config.yaml", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	limits := &c.Limits
	r := c.Rules
	if r.Silence != 9*time.Minute || r.SameOutput != 7 || r.WallClock != time.Hour || limits.Replans != 0 {
		t.Errorf("rules %+v, limits %+v", r, limits)
	}
	if diff := gocmp.Diff([]string{"c"}, c.Gates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
}
