package project

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project/internal/config"
)

// Untrusted is what does not count of the project's manager.yaml, since the user has not trusted it.
type Untrusted = config.Untrusted

// The record that the user trusts a configuration is a file below the user's state directory, where no repository reaches. Its
// name is a hash of the project's path and of the content: a change, or a clone elsewhere, is another one.

// trusts reports whether the user trusts a content of the project's manager.yaml.
func (p *Project) trusts(content []byte) bool {
	path := p.trustRecord(content)
	return path != "" && exists(path)
}

// trustRecord returns the path of a record, or "" if the environment names no home.
func (p *Project) trustRecord(content []byte) string {
	state := p.getenv("XDG_STATE_HOME")
	if state == "" && p.getenv("HOME") != "" {
		state = filepath.Join(p.getenv("HOME"), ".local", "state")
	}
	if state == "" {
		return ""
	}
	sum := sha256.Sum256(append([]byte(p.dir+"\x00"), content...))
	return filepath.Join(state, "manager", "trusted", hex.EncodeToString(sum[:]))
}

// CheckTrust refuses to work with a manager.yaml that sets what only a trusted one may, and is not. The error is a
// [*UsageError].
func (p *Project) CheckTrust() error {
	u := p.cfg.Untrusted
	if u == nil {
		return nil
	}
	return usagef("%w\nRead it, then: manager trust (or use a configuration of your own alone, with --config)", &DistrustError{p.Distrusted()})
}

// DistrustError says what is not trusted. Whoever shows it shows all of it: a command that looks like a secret is one that would
// run unseen.
type DistrustError struct{ said string }

func (e *DistrustError) Error() string { return e.said }

// Distrusted says what the project's manager.yaml sets that does not count, with nothing redacted; empty if all of it counts.
func (p *Project) Distrusted() string {
	u := p.cfg.Untrusted
	if u == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s sets what runs commands, reaches outside, or decides what agents may do and spend, and you have not trusted"+
		" it as it is now:", u.Path)
	for _, e := range u.Ignored {
		fmt.Fprintf(&b, "\n  %s: %s", text.Whole(e.Key), text.Whole(e.Value))
	}
	return b.String()
}

// Trust records that the user trusts the project's manager.yaml as it is now; it counts from the next [Open] on. Processes
// that a run has started are refused: an agent must not decide what the next run executes.
func (p *Project) Trust() (*Untrusted, error) {
	if byAgent(p.getenv) {
		return nil, usagef("this process was started by a run of manager: only you can trust a configuration, in a terminal of your own")
	}
	u := p.cfg.Untrusted
	if u == nil {
		return nil, usagef("there is nothing to trust: %s", text.If(exists(filepath.Join(p.dir, sharedConfig)),
			sharedConfig+" is trusted as it is, or sets only what is harmless")+
			text.If(!exists(filepath.Join(p.dir, sharedConfig)), "the project has no "+sharedConfig))
	}
	record := p.trustRecord(u.Content)
	if record == "" {
		return nil, usagef("the environment names no home directory to keep that in: set HOME or XDG_STATE_HOME")
	}
	if err := os.MkdirAll(filepath.Dir(record), 0o700); err != nil {
		return nil, err
	}
	return u, statedir.Replace(record, []byte(u.Path+"\n"), 0o600)
}

// Distrust forgets that the user trusts the project's manager.yaml as it is now, and reports whether that was recorded.
func (p *Project) Distrust() (bool, error) {
	content, err := os.ReadFile(filepath.Join(p.dir, sharedConfig))
	if err != nil {
		return false, err
	}
	record := p.trustRecord(content)
	if record == "" || !exists(record) {
		return false, nil
	}
	return true, os.Remove(record)
}

// byAgent reports whether this process, or one that it descends from, has the mark of what manager starts. It is a barrier
// for agents that try, not for a program that hides.
func byAgent(getenv func(string) string) bool {
	if getenv(orphan.Variable) != "" {
		return true
	}
	for pid := os.Getppid(); pid > 1; {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // Linux; of another user: unreadable
		if strings.Contains("\x00"+string(environ), "\x00"+orphan.Variable+"=") {
			return true
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // after "PID (NAME)": state, parent
		pid = 0
		if len(fields) > 1 {
			pid, _ = strconv.Atoi(fields[1])
		}
	}
	return false
}
