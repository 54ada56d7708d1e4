package opencode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkMessages decodes 2 MB of messages as they come from the server, beside what
// encoding/json takes to look at them.
func BenchmarkMessages(b *testing.B) {
	output := strings.Repeat("\tpart/file.go:12: \"value\" is not what it says <17>\n", 300)
	var data bytes.Buffer
	data.WriteByte('[')
	for i := 0; data.Len() < 2<<20; i++ {
		if i > 0 {
			data.WriteByte(',')
		}
		text, err := json.Marshal(output)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(&data, `{"info":{"id":"msg_%d","sessionID":"ses_1","role":"assistant","finish":"tool-calls",`+
			`"time":{"created":1,"completed":2},"tokens":{"input":1,"output":2,"cache":{"read":3,"write":0}}},`+
			`"parts":[{"id":"prt_1","sessionID":"ses_1","messageID":"msg_1","type":"tool","callID":"call_1",`+
			`"tool":"bash","state":{"status":"completed","input":{"command":"go test ./..."},"output":%s,`+
			`"metadata":{"output":%s,"exit":0}}}]}`, i, text, text)
	}
	data.WriteByte(']')
	b.Run("scanner", func(b *testing.B) {
		b.SetBytes(int64(data.Len()))
		b.ReportAllocs()
		for b.Loop() {
			s := newScanner(bytes.NewReader(data.Bytes()))
			for range s.array() {
				if m := readMessage(s, whole); len(m.Parts) != 1 {
					b.Fatal(s.err)
				}
			}
			if err := s.finish(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json", func(b *testing.B) {
		b.SetBytes(int64(data.Len()))
		b.ReportAllocs()
		for b.Loop() {
			var messages []struct {
				Parts []struct{ State struct{ Output string } }
			}
			if err := json.Unmarshal(data.Bytes(), &messages); err != nil {
				b.Fatal(err)
			}
		}
	})
}
