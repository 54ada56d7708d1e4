package openai_test

import (
	"testing"

	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

func FuzzAnswer(f *testing.F) {
	adaptertest.FuzzAnswer(f, open,
		fine,
		`{"choices":"none"}`,
		`{"choices":[{"message":{"content":[1]}}],"usage":[]}`,
		`[{"error":{"code":503,"message":{"a":1}}}]`,
	)
}
