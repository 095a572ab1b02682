// Command standalone runs Canvasback as a server. It is configured by
// environment variables; -h lists them. By default it stores data in a SQLite
// file in the working directory, creates sample data if the database is new,
// and prints commands to try the API with.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "standalone runs Canvasback as a server, configured by environment variables:\n\n%s", usage())
	}
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // restore the default: a second signal ends the process
	if err := run(ctx, os.LookupEnv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "standalone:", err)
		os.Exit(1)
	}
}
