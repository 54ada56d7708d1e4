package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/orchestrator"
)

// ruleRow is the row of a key in the tables of docs/rules.md.
type ruleRow struct{ fallback, off string }

func ruleRows(t *testing.T) map[string]ruleRow {
	t.Helper()
	text, err := os.ReadFile("../../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]ruleRow{}
	tableRow := regexp.MustCompile("(?m)^\\|(?: [a-z]+ \\|)? `([a-z_.]+)`[^|]* \\| ([^|]*) \\| ([^|]*) \\|")
	for _, m := range tableRow.FindAllStringSubmatch(string(text), -1) {
		if _, twice := rows[m[1]]; twice {
			t.Errorf("%s is there twice", m[1])
		}
		rows[m[1]] = ruleRow{strings.TrimSpace(m[2]), strings.TrimSpace(m[3])}
	}
	return rows
}

// The tables list every key of these groups with its default and whether it can be off.
func TestRulesAreDocumented(t *testing.T) {
	t.Parallel()
	rows := ruleRows(t)
	documented := func(key, fallback string, off bool) {
		row, there := rows[key]
		delete(rows, key)
		if !there || row.fallback != fallback || (row.off == "yes") != off {
			t.Errorf("docs/rules.md says of %s: %+v; the default is %s, and that it can be off is %v", key, row, fallback, off)
		}
	}
	for group, defaults := range map[string]any{
		"rules": enforcer.DefaultRules(), "limits": orchestrator.DefaultLimits(), "loop": Default().Loop,
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(defaults)) {
			if keyOf(f) == "-" {
				continue
			}
			value := reflect.ValueOf(defaults).FieldByName(f.Name)
			key := group + "." + keyOf(f)
			_, err := configOf(t, group+": {"+keyOf(f)+": off}")
			documented(key, fallbackText(value.Interface()), err == nil)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[boulder.Budget]()) {
		if keyOf(f) != "-" {
			documented("budget."+keyOf(f), "none", false)
		}
	}
	for key, fallback := range map[string]string{
		"gates": "none", "no_worse": "none", "gate_timeout": "10m", "allow_model_gates": "false", "on_ask": "reject",
	} {
		documented(key, fallback, false)
	}
	for key := range rows {
		t.Errorf("docs/rules.md has the key %s, which is not there", key)
	}
}

// fallbackText formats a default as users write it.
func fallbackText(v any) string {
	switch v := v.(type) {
	case time.Duration:
		text := v.String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = strings.TrimSuffix(text, zero[1:])
			}
		}
		return text
	case int, float64:
		return fmt.Sprint(v)
	case map[string]int:
		return "none"
	}
	return "built in"
}

// Built-in limits of models are in the text, not in the tables.
func TestModelLimitsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range orchestrator.DefaultLimits().Models {
		if want := fmt.Sprintf("`%s` %d", m.Pattern, m.Limit); !strings.Contains(string(text), want) {
			t.Errorf("docs/rules.md does not say %s", want)
		}
	}
}
