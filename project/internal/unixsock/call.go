package unixsock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// maxRequest bounds a request, in bytes: a plan file has at most 4 MiB, and is a little longer in JSON.
	maxRequest = 8 << 20
	// ioTimeout bounds reading a request and writing an answer.
	ioTimeout = 30 * time.Second
)

// Server answers requests on a socket. A connection carries one request (JSON up to EOF) and one answer.
type Server struct {
	// Grace is how long Close waits for requests that are being answered. Defaults to two seconds.
	Grace time.Duration

	path          string
	file          fs.FileInfo // of the socket
	listener      net.Listener
	cancelWaiting context.CancelFunc // cancels waiting requests
	cancelAll     context.CancelFunc // cancels the others
	work          sync.WaitGroup
}

// Serve creates a socket at path, accessible to its owner only whatever the umask, and answers on it until
// [Server.Close]. Only the owner can enter the directory, and the caller holds the lock of the state: an existing
// socket was left by a dead process, and is replaced.
//
// answer gets each request, or the error of reading it, on a goroutine of its own; its result is sent as JSON. Its ctx
// ends with that of Serve or with Close; patient ends Grace after Close. Neither ends when the client disconnects.
func Serve[Q any](
	ctx context.Context, path string, log *slog.Logger, answer func(ctx, patient context.Context, q Q, err error) any,
) (*Server, error) {
	l, file, err := listen(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	s := &Server{Grace: 2 * time.Second, path: path, file: file, listener: l}
	patient, cancelAll := context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancelWaiting := context.WithCancel(ctx)
	s.cancelAll, s.cancelWaiting = cancelAll, cancelWaiting
	serveConn := func(conn net.Conn) {
		hangUp := func() { _ = conn.Close() }
		defer hangUp()
		defer context.AfterFunc(patient, hangUp)()
		q, err := read[Q](conn)
		text, err := json.Marshal(answer(ctx, patient, q, err))
		if err == nil {
			_ = conn.SetWriteDeadline(time.Now().Add(ioTimeout))
			_, err = conn.Write(text)
		}
		if err != nil {
			log.Warn("control socket: no answer was given", "path", path, "error", err)
		}
	}
	s.work.Go(func() {
		for {
			conn, err := l.Accept()
			switch {
			case err == nil:
				s.work.Go(func() { serveConn(conn) })
			case errors.Is(err, net.ErrClosed):
				return
			default: // too many open files, for example
				log.Error("control socket failed; other commands may not reach this process", "path", path, "error", err)
				select {
				case <-time.After(100 * time.Millisecond):
				case <-patient.Done():
				}
			}
		}
	})
	return s, nil
}

// read is strict: an unknown field could be what the request is about.
func read[Q any](conn net.Conn) (q Q, err error) {
	_ = conn.SetReadDeadline(time.Now().Add(ioTimeout))
	dec := json.NewDecoder(io.LimitReader(conn, maxRequest)) // cuts a longer one, which then is not JSON
	dec.DisallowUnknownFields()
	if err = dec.Decode(&q); err != nil {
		return q, err
	}
	if _, more := dec.Token(); !errors.Is(more, io.EOF) {
		err = errors.New("there is more behind it")
	}
	return q, err
}

// Close removes the socket, cancels waiting requests, gives the others Grace to end, and waits for all. Idempotent.
func (s *Server) Close() error {
	info, err := os.Lstat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && os.SameFile(info, s.file): // not another process's
		err = os.Remove(s.path)
	}
	if closeErr := s.listener.Close(); !errors.Is(closeErr, net.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	s.cancelWaiting()
	hurry := time.AfterFunc(s.Grace, s.cancelAll)
	s.work.Wait()
	hurry.Stop()
	s.cancelAll()
	if err != nil {
		return fmt.Errorf("close control socket %s: %w", s.path, err)
	}
	return nil
}

// Call makes one request. sent reports whether the other side may have received it. Errors wrap [ErrNotServed] if there
// is no other side or it ended meanwhile, or are the cause of ctx.
func Call[A any](ctx context.Context, path string, q any) (answer A, sent bool, err error) {
	defer func() {
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
			errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = fmt.Errorf("%w: %w", ErrNotServed, err)
		}
		err = fmt.Errorf("control socket %s: %w", path, err)
	}()
	conn, err := dial(ctx, path)
	if err != nil {
		return answer, false, err
	}
	hangUp := func() { _ = conn.Close() }
	defer hangUp()
	defer context.AfterFunc(ctx, hangUp)()
	request, err := json.Marshal(q)
	if err != nil {
		return answer, false, err
	}
	if _, err = conn.Write(request); err == nil {
		err = conn.(*net.UnixConn).CloseWrite()
	}
	if err != nil {
		return answer, true, err
	}
	err = json.NewDecoder(conn).Decode(&answer)
	return answer, true, err
}
