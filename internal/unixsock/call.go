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
	// maxRequest bounds a request, in bytes: a plan file has at most 4 MiB, and JSON is a little longer.
	maxRequest = 8 << 20
	// ioTimeout bounds the reading of a request and the writing of an answer.
	ioTimeout = 30 * time.Second
)

// Server answers requests on a socket. A connection is for one request, which is one JSON text up to the end of what the
// client sends, and for one answer.
type Server struct {
	// Grace is how long Close lets requests end that are being answered. Defaults to two seconds.
	Grace time.Duration

	path     string
	file     fs.FileInfo // of the socket
	listener net.Listener
	ended    context.CancelFunc // ends requests that wait
	abandon  context.CancelFunc // ends the others
	work     sync.WaitGroup
}

// Serve puts a socket at path, for its owner only whatever the umask, and answers on it until [Server.Close]. The directory
// is one that only the owner can enter, and the caller holds the lock of the state beside the socket: one that is there
// already is what a dead process left, and is replaced.
//
// answer gets each request, or why it cannot be read, on a goroutine of its own; what it returns is sent as JSON. ctx ends
// when that of Serve does, or with Close; patient lasts two seconds longer, for what should come to its end. Neither ends
// when the client goes away.
func Serve[Q any](
	ctx context.Context, path string, log *slog.Logger, answer func(ctx, patient context.Context, q Q, err error) any,
) (*Server, error) {
	l, file, err := listen(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	s := &Server{Grace: 2 * time.Second, path: path, file: file, listener: l}
	patient, abandon := context.WithCancel(context.WithoutCancel(ctx))
	ctx, ended := context.WithCancel(ctx)
	s.abandon, s.ended = abandon, ended
	one := func(conn net.Conn) {
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
				s.work.Go(func() { one(conn) })
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

// read reads strictly: a field that this version does not know could be what the request is about.
func read[Q any](conn net.Conn) (q Q, err error) {
	_ = conn.SetReadDeadline(time.Now().Add(ioTimeout))
	dec := json.NewDecoder(io.LimitReader(conn, maxRequest)) // one that is longer is cut, and no JSON
	dec.DisallowUnknownFields()
	if err = dec.Decode(&q); err != nil {
		return q, err
	}
	if _, more := dec.Token(); !errors.Is(more, io.EOF) {
		err = errors.New("there is more behind it")
	}
	return q, err
}

// Close removes the socket, ends requests that wait, lets the others end for two seconds, and returns when nothing of the
// server runs any more. It may be called again.
func (s *Server) Close() error {
	info, err := os.Lstat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && os.SameFile(info, s.file): // else it is another one by now
		err = os.Remove(s.path)
	}
	if closeErr := s.listener.Close(); !errors.Is(closeErr, net.ErrClosed) {
		err = errors.Join(err, closeErr)
	}
	s.ended()
	hurry := time.AfterFunc(s.Grace, s.abandon)
	s.work.Wait()
	hurry.Stop()
	s.abandon()
	if err != nil {
		return fmt.Errorf("close control socket %s: %w", s.path, err)
	}
	return nil
}

// Call makes one request. sent reports whether the other side may have got it. Errors wrap [ErrNotServed] if there is no
// other side, or it ended meanwhile, or are what ctx was cancelled with.
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
