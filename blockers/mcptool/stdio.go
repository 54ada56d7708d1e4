package mcptool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/boulder"
)

// maxLine bounds a message, in bytes.
const maxLine = 1 << 20

// ServeStdio offers the tool over in and out, to one client, until in ends, which is no error, or ctx does, whose cause
// it then returns. What it is called by is one session, see [SessionOf]. Besides the server's other uses nothing is
// shared.
//
// A read of in may go on after the return; out is not written to any more.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	tools := s.tools(func(_ context.Context, r *mcp.CallToolRequest) (boulder.BlockerScope, bool) {
		client := ""
		if p := r.Session.InitializeParams(); p != nil && p.ClientInfo != nil {
			client = p.ClientInfo.Name
		}
		return boulder.BlockerScope{SessionID: SessionOf(client, os.Getpid())}, true
	})
	// The library reads on until the reader ends, also when it is told to stop, and a read of a terminal or a file cannot
	// be ended from here. So it reads from a pipe.
	reader, writer := io.Pipe()
	go func() {
		_, err := io.Copy(writer, in)
		writer.CloseWithError(err) // nil is the end
	}()
	defer reader.CloseWithError(io.ErrClosedPipe) // ends the copying with its next read
	stop := context.AfterFunc(ctx, func() { reader.CloseWithError(context.Cause(ctx)) })
	defer stop()
	err := tools.Run(ctx, &mcp.IOTransport{Reader: reader, Writer: keepOpen{out}, MaxLineLength: maxLine})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil, errors.Is(err, io.EOF):
		return nil
	}
	return fmt.Errorf("serve the blocker tool over standard input and output: %w", err)
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// SessionOf names the session of a client that the tool is served to over standard input and output: the client's name
// and the process id of the server, of which each client has one of its own. OpenCode has one for a directory, so that
// all its sessions there are one.
func SessionOf(client string, pid int) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, client)
	if name == "" {
		name = "mcp"
	}
	return fmt.Sprintf("%s-%d", name[:min(len(name), 60)], pid)
}
