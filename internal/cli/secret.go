package cli

import (
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/bouldermgr/manager/internal/secret"
)

// guarded is a stream to which no secret is written, whoever writes: views, diagnostics, errors of libraries.
//
// A secret is found within one write. The package writes whole lines, and what is drawn piece by piece, the live
// view, goes to the terminal itself and is made of events that were cleaned before.
type guarded struct {
	stream  io.Writer
	secrets *secret.Redactor
	failed  *atomic.Pointer[error] // the first error of a write; nil: nobody asks
}

func (g guarded) Write(p []byte) (int, error) {
	clean := g.secrets.Text(string(p))
	if clean != string(p) && strings.HasPrefix(string(p), "{") { // an event: it stays one
		clean = string(g.secrets.JSON(p))
	}
	if _, err := io.WriteString(g.stream, clean); err != nil {
		if g.failed != nil {
			g.failed.CompareAndSwap(nil, &err)
		}
		return 0, err
	}
	return len(p), nil
}

// bare is the stream behind a guarded one: for what has to be a terminal, and guards its own output or shows what is
// clean.
func bare(stream io.Writer) io.Writer {
	for {
		g, ok := stream.(guarded)
		if !ok {
			return stream
		}
		stream = g.stream // `demo` runs command lines inside of one
	}
}

// fileOf is the file that a stream writes to or reads from, if it is one.
func fileOf(stream any) (*os.File, bool) {
	if w, ok := stream.(guarded); ok {
		stream = bare(w)
	}
	f, ok := stream.(*os.File)
	return f, ok
}

// withoutSecrets is a text of the user as it is stored and sent to model providers. That something was taken out is told.
func (a *app) withoutSecrets(what, text string) string {
	p, err := a.openAnyway()
	if err != nil {
		return a.secrets.Text(text)
	}
	return p.Clean(what, text)[0]
}
