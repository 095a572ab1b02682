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
	"runtime/debug"
	"strings"
	"syscall"

	"golang.org/x/crypto/bcrypt"
)

func main() {
	showVersion := flag.Bool("version", false, "print the version")
	backup := flag.String("backup", "", "copy the SQLite database of DATABASE_URL to the new file `FILE`, also while a server runs")
	hash := flag.Bool("hash-admin-key", false, "read an admin key from standard input and print a bcrypt hash for ADMIN_API_KEY")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "standalone runs Canvasback as a server, configured by environment variables:\n\n%s\nFlags:\n\n", usage())
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "standalone: unexpected argument %q; -h lists flags and environment variables\n", flag.Arg(0))
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // restore the default: a second signal ends the process
	var err error
	switch {
	case *showVersion:
		fmt.Println(version())
	case *hash:
		err = hashAdminKey(os.LookupEnv, os.Stdin, os.Stdout)
	case *backup != "":
		err = backUp(ctx, os.LookupEnv, *backup)
	default:
		err = run(ctx, os.LookupEnv, os.Environ(), os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "standalone:", err)
		os.Exit(1)
	}
}

// version returns the version of the module, the commit and the Go release.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			text += " " + setting.Value
		}
	}
	return text + " " + info.GoVersion
}

// hashAdminKey prints a bcrypt hash of the line that it reads.
func hashAdminKey(lookup func(string) (string, bool), in io.Reader, out io.Writer) error {
	env := environment{lookup: lookup}
	allowShort := env.flag("ALLOW_SHORT_ADMIN_KEYS", false)
	if env.err != nil {
		return env.err
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
