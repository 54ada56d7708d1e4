package anthropic_test

import (
	"testing"

	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

func FuzzAnswer(f *testing.F) {
	adaptertest.FuzzAnswer(f, open,
		says("end_turn", `{"type":"text","text":"x"}`),
		`{"type":"error","error":{"type":"overloaded_error"}}`,
		`{"type":"message","stop_reason":"end_turn","content":{"a":1},"usage":[]}`,
		`[]`,
	)
}
