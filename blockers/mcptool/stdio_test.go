package mcptool

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/blockers"
)

// pipes connects a client to the server's standard input and output; ended gets what ServeStdio returns.
func pipes(ctx context.Context, t *testing.T, s *Server) (*mcp.ClientSession, io.WriteCloser, <-chan error) {
	t.Helper()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- s.ServeStdio(ctx, toServer, fromServer)
		fromServer.Close()
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "an editor/2", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session, in, ended
}

// A client over standard input and output is one session, and the end of the input is the end.
func TestServeStdio(t *testing.T) {
	t.Parallel()
	desk := newDesk(t, nil)
	session, _, ended := pipes(t.Context(), t, New(Config{Desk: desk}))
	if text, failed := callTool(t, session, soft); failed || text != Registered {
		t.Errorf("it was told %v %q", failed, text)
	}
	if text, failed := callTool(t, session, `{}`); !failed {
		t.Errorf("a wrong call: %q", text)
	}
	raised, err := desk.List(t.Context(), blockers.Filter{})
	if err != nil || len(raised) != 1 || raised[0].SessionID != SessionOf("an_editor_2", os.Getpid()) {
		t.Errorf("recorded: %+v, %v", raised, err)
	}
	session.Close() // closes the input
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// It stops when it is told to, although nobody ends the input.
func TestServeStdioStops(t *testing.T) {
	t.Parallel()
	stop := errors.New("told to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	session, in, ended := pipes(ctx, t, New(Config{Desk: newDesk(t, nil)}))
	cancel(stop)
	if err := <-ended; !errors.Is(err, stop) {
		t.Errorf("it ended with %v", err)
	}
	in.Close() // the read that was left
	session.Close()
}
