package gemini_test

import (
	"testing"

	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

func FuzzAnswer(f *testing.F) {
	adaptertest.FuzzAnswer(f, open,
		says("STOP", `{"text":"x"}`),
		`{"candidates":"none"}`,
		`{"candidates":[{"content":{"parts":{"a":1}}}],"usageMetadata":[]}`,
		`[{"error":{"code":503,"details":[{"violations":[7]}]}}]`,
	)
}
