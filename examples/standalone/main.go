// Command standalone runs Canvasback as a server. It is configured by
// environment variables; -h lists them. By default it stores data in a SQLite
// file in the working directory, creates sample data if the database is new,
// and prints commands to try the API with.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/crypto/bcrypt"
)

func main() {
	hash := flag.Bool("hash-admin-key", false, "read an admin key from standard input and print a bcrypt hash for ADMIN_API_KEY")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "standalone runs Canvasback as a server, configured by environment variables:\n\n%s\nFlags:\n\n", usage())
		flag.PrintDefaults()
	}
	flag.Parse()
	if *hash {
		if err := hashAdminKey(os.LookupEnv, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "standalone:", err)
			os.Exit(1)
		}
		return
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // restore the default: a second signal ends the process
	if err := run(ctx, os.LookupEnv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "standalone:", err)
		os.Exit(1)
	}
}

// hashAdminKey prints a bcrypt hash of the line that it reads.
func hashAdminKey(lookup func(string) (string, bool), in io.Reader, out io.Writer) error {
	allowShort, err := allowShortAdminKeys(lookup)
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("admin key: %w", err)
	}
	key := strings.TrimSpace(line)
	if key == "" {
		return errors.New("no admin key on standard input")
	}
	if err := checkAdminKey(key, allowShort); err != nil {
		return err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(key), bcrypt.DefaultCost)
	if err != nil {
		return fmt.Errorf("admin key: %w", err)
	}
	fmt.Fprintln(out, string(hash))
	return nil
}
