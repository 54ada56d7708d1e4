package executor

import (
	"io/fs"
	"slices"
	"sync"

	"github.com/bouldermgr/manager/opencode"
)

// mark says how far a session has been read, so that its next turn need not read it again. It is kept in memory only: one
// that is lost, or that does not fit what is found, costs time and nothing else.
type mark struct {
	turn string // id of the prompt whose turn was read
	// last is the id of the newest message. It is read again, since it may have been completed after all.
	last   string
	lastAt int64   // where its lines begin in the transcript, in bytes
	before account // of the messages before it
	name   string  // of the transcript, in the directory of all
	file   fs.FileInfo
}

// Answers of [mark.in].
const (
	markNotSeen = iota // it takes more messages to tell
	markFits
	markIsOff
)

// in reports whether a session can be read on from the mark with these newest messages of it. Of a turn with the given
// prompt all have to be there; and what was read before must be no other than then.
func (m mark) in(messages []opencode.Message, prompt string) int {
	marked, prompted := index(messages, m.last), index(messages, prompt)
	switch {
	case marked < 0 || prompted < 0:
		return markNotSeen
	case prompted > marked, prompt == m.turn:
		return markFits
	}
	return markIsOff // a new prompt came to lie among what was read: the clocks of server and manager differ
}

// marksKept bounds how many sessions are remembered. More than are open at a time are of no use.
const marksKept = 256

// marks holds the marks of sessions. It is safe for concurrent use, and its zero value is empty.
type marks struct {
	mu     sync.Mutex
	byID   map[string]mark
	oldest []string // session ids
}

// take hands the mark out and forgets it: whoever fails to write a transcript leaves no mark on it.
func (s *marks) take(session string) (mark, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.byID[session]
	s.forget(session)
	return m, ok
}

func (s *marks) put(session string, m mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(session)
	if len(s.oldest) == marksKept {
		s.forget(s.oldest[0])
	}
	if s.byID == nil {
		s.byID = map[string]mark{}
	}
	s.byID[session] = m
	s.oldest = append(s.oldest, session)
}

// forget is called with the lock held.
func (s *marks) forget(session string) {
	delete(s.byID, session)
	s.oldest = slices.DeleteFunc(s.oldest, func(other string) bool { return other == session })
}
