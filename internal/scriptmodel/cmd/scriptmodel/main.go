// Command scriptmodel serves a script as an OpenAI-compatible model until it is interrupted. It prints the base URL on
// standard output, and on request, in a second line, a configuration that makes OpenCode use it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/bouldermgr/manager/internal/scriptmodel"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scriptmodel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("scriptmodel", flag.ContinueOnError)
	file := flags.String("script", "", "`file` with the script (required)")
	listen := flags.String("listen", "127.0.0.1:0", "`address` to listen on")
	key := flags.String("key", "", "bearer `token` to require")
	config := flags.Bool("opencode-config", false, "also print a value for OPENCODE_CONFIG_CONTENT")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" || flags.NArg() > 0 {
		return errors.New("usage: scriptmodel -script FILE [-listen ADDRESS] [-key TOKEN] [-opencode-config]")
	}
	script, err := scriptmodel.LoadScript(*file)
	if err != nil {
		return err
	}
	options := []scriptmodel.Option{scriptmodel.Listen(*listen)}
	if *key != "" {
		options = append(options, scriptmodel.RequireKey(*key))
	}
	server, err := scriptmodel.Start(script.Reply, options...)
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintln(stdout, server.URL())
	if *config {
		fmt.Fprintln(stdout, scriptmodel.OpenCodeConfig(server.URL()))
	}
	<-ctx.Done()
	return nil
}
