package fakeopencode

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Main is the stand-in's program. It reads arguments and environment of the process, and returns an exit code.
func Main() int {
	cfg := Config{Environ: Environ(os.Environ())}
	_ = json.Unmarshal([]byte(cfg.Environ[behaviourVar]), &cfg.Behaviour) // unset: the zero value
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	stdio := flags.Bool("stdio", false, "end with the standard input")
	host := flags.String("hostname", "127.0.0.1", "`address` to listen on")
	port := flags.String("port", "0", "`port` to listen on")
	if os.Args[1] == "--version" {
		fmt.Println("opencode v" + cfg.withDefaults().Version)
		return 0
	}
	_ = flags.Parse(os.Args[2:]) // after "serve"; an error ends the program
	if err := serve(cfg, net.JoinHostPort(*host, *port), *stdio); err != nil {
		fmt.Fprintln(os.Stderr, "opencode (stand-in):", err)
		return 1
	}
	return 0
}

func serve(cfg Config, address string, stdio bool) (err error) {
	cfg.Password = cmp.Or(cfg.Environ["OPENCODE_PASSWORD"], cfg.Environ["OPENCODE_SERVER_PASSWORD"], rand.Text())
	if stdio { // a plain serve passes the password on to every tool
		delete(cfg.Environ, "OPENCODE_PASSWORD")
		delete(cfg.Environ, "OPENCODE_SERVER_PASSWORD")
	}
	if cfg.Dir, err = os.Getwd(); err != nil {
		return err
	}
	server, err := New(cfg)
	if err != nil {
		return err
	}
	defer server.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	served := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = served.Serve(listener) }() // until it is closed
	defer func() { _ = served.Close() }()      // before server.Close: it ends the handlers

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if stdio {
		fmt.Printf("{\"url\":%q}\n", url)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // until it ends
			stop()
		}()
	} else {
		fmt.Println("server listening on " + url)
	}
	<-ctx.Done()
	return nil
}

// Environ returns the entries of an environment by name.
func Environ(entries []string) map[string]string {
	all := map[string]string{}
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		all[name] = value
	}
	return all
}

// behaviourVar is the environment variable that holds the program's [Behaviour], as JSON.
const behaviourVar = "FAKE_OPENCODE"

// Behaviour says how a server differs from 2.0.21. The zero value is 2.0.21.
type Behaviour struct {
	Version string        // Defaults to 2.0.21.
	Older   bool          // serve only the API before 2.0.4, of which /api/health is here
	Retry   time.Duration // before a model call is retried; doubles each time. Defaults to 2 s.

	KeepRejectText bool // the text of a rejection reaches the model for every tool
	FullCatalogue  bool // directories have booted from the first request on, see [location.stage]
	NeverBoots     bool // they never boot
	BareChildren   bool // sub-agents inherit neither rules nor metadata
	LeavesCommands bool // an interrupt leaves commands running
	LastPage       bool // the last page of a list has no cursor
	EventLocations bool // events of an execution name the directory too
	IgnoreRules    bool // permissions given at a session's creation are ignored
}

func (b Behaviour) withDefaults() Behaviour {
	b.Version, b.Retry = cmp.Or(b.Version, "2.0.21"), cmp.Or(b.Retry, 2*time.Second)
	return b
}

// Env returns the environment entry that gives [Main] this behaviour.
func (b Behaviour) Env() string {
	data, err := json.Marshal(b)
	if err != nil {
		panic(err) // plain fields always marshal
	}
	return behaviourVar + "=" + string(data)
}
