package boulder

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPlanHash(t *testing.T) {
	t.Parallel()
	plan := Plan{Task: "t", SubTasks: []Spec{{ID: "a", Description: "d"}}}
	hash := plan.Hash()
	plan.Seal = &Seal{Base: "abc", Hash: hash, Origin: OriginModel, CreatedAt: epoch}
	if plan.Hash() != hash || plan.Edited() || plan.Origin() != OriginModel {
		t.Errorf("sealing changed the plan: %s, edited %v", plan.Origin(), plan.Edited())
	}
	plan.SubTasks[0].Description = "e"
	if !plan.Edited() {
		t.Error("an edited plan does not say so")
	}
	plan.Seal = nil
	if plan.Edited() || plan.Origin() != OriginHand {
		t.Errorf("a plan without a seal is %s, edited %v", plan.Origin(), plan.Edited())
	}
}

// The hash is of the JSON from encoding/json, so it survives the store, and seals of other versions stay valid.
func TestPlanHashIsStored(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := genPlan(t, 5)
		plan.SubTasks[0].Budget = &Budget{Attempts: 2, Time: Duration(30 * time.Minute)}
		if got := decode[Plan](t, encode(t, plan)).Hash(); got != plan.Hash() {
			t.Fatalf("hash %s became %s", plan.Hash(), got)
		}
		text, err := json.Marshal(plan)
		if want := fmt.Sprintf("%x", sha256.Sum256(text)); err != nil || plan.Seal != nil || plan.Hash() != want {
			t.Fatalf("hash %s, wanted was %s, %v", plan.Hash(), want, err)
		}
	})
}

// TestClone: a clone is equal and shares nothing: overwriting it leaves the plan unchanged.
func TestClone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var plan Plan
		fill(t, reflect.ValueOf(&plan).Elem())
		before := encode(t, plan)
		clone := plan.Clone()
		if d := cmp.Diff(plan, clone); d != "" {
			t.Fatal(d)
		}
		spoil(reflect.ValueOf(&clone).Elem())
		if d := cmp.Diff(string(before), string(encode(t, plan))); d != "" {
			t.Fatalf("the clone shares with its plan:\n%s", d)
		}
	})
}

// spoil overwrites every reachable string and number.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("spoilt")
	case reflect.Int, reflect.Int64:
		v.SetInt(-1)
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() != reflect.TypeFor[time.Time]() {
				spoil(v.Field(i))
			}
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	var b Budget
	if err := json.Unmarshal([]byte(`{"time":"1h30m"}`), &b); err != nil || time.Duration(b.Time) != 90*time.Minute {
		t.Errorf("got %v, %v", time.Duration(b.Time), err)
	}
	for _, bad := range []string{`"0s"`, `"-1m"`, `"soon"`, `""`} {
		if err := json.Unmarshal([]byte(`{"time":`+bad+`}`), &b); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestUsageAdd(t *testing.T) {
	t.Parallel()
	a := Usage{1, 2, 3, 4, 5, 6, 7.5, 8}
	if got, want := a.Add(a), (Usage{2, 4, 6, 8, 10, 12, 15, 16}); got != want {
		t.Errorf("got %+v", got)
	}
	if a.Tokens() != 5 {
		t.Errorf("tokens %d: input and output together are 5", a.Tokens())
	}
}
