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

// Main is the program that is used in the place of OpenCode's. It takes its arguments and all else from the process, and
// returns an exit code.
func Main() int {
	cfg := Config{Environ: Environ(os.Environ())}
	_ = json.Unmarshal([]byte(cfg.Environ[behaviourVar]), &cfg.Behaviour) // without one it is as it is
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	stdio := flags.Bool("stdio", false, "end with the standard input")
	host := flags.String("hostname", "127.0.0.1", "`address` to listen on")
	port := flags.String("port", "0", "`port` to listen on")
	if os.Args[1] == "--version" {
		fmt.Println("opencode v" + cfg.withDefaults().Version)
		return 0
	}
	_ = flags.Parse(os.Args[2:]) // behind "serve"; an error ends the program
	if err := serve(cfg, net.JoinHostPort(*host, *port), *stdio); err != nil {
		fmt.Fprintln(os.Stderr, "opencode (stand-in):", err)
		return 1
	}
	return 0
}

func serve(cfg Config, address string, stdio bool) (err error) {
	cfg.Password = cmp.Or(cfg.Environ["OPENCODE_PASSWORD"], cfg.Environ["OPENCODE_SERVER_PASSWORD"], rand.Text())
	if stdio { // a plain serve hands it on to every tool
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
	defer func() { _ = served.Close() }()      // before the server, whose handlers it ends

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if stdio {
		fmt.Printf("{\"url\":%q}\n", url)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
			stop()
		}()
	} else {
		fmt.Println("server listening on " + url)
	}
	<-ctx.Done()
	return nil
}

// Environ are the entries of an environment by their names.
func Environ(entries []string) map[string]string {
	all := map[string]string{}
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		all[name] = value
	}
	return all
}

// behaviourVar is the environment variable from which the program reads a [Behaviour], as JSON.
const behaviourVar = "FAKE_OPENCODE"

// Behaviour says in what a server differs from 2.0.21. The zero value: in nothing.
type Behaviour struct {
	Version string        // Defaults to 2.0.21.
	Older   bool          // it knows the API of before 2.0.4 only, of which /api/health is here
	Retry   time.Duration // before a call of the model is tried again; it doubles. Defaults to 2 s.

	KeepRejectText bool // the text of a rejection reaches the model, whichever tool it is about
	FullCatalogue  bool // lists are complete from the first answer on
	LastPage       bool // the last page of a list has no cursor
	EventLocations bool // events of an execution name the directory as well
	IgnoreRules    bool // permissions at the creation of a session are ignored
}

func (b Behaviour) withDefaults() Behaviour {
	b.Version, b.Retry = cmp.Or(b.Version, "2.0.21"), cmp.Or(b.Retry, 2*time.Second)
	return b
}

// Env is the entry of an environment that has the program behave like this.
func (b Behaviour) Env() string {
	data, err := json.Marshal(b)
	if err != nil {
		panic(err) // plain fields always marshal
	}
	return behaviourVar + "=" + string(data)
}
