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
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/crypto/bcrypt"

	"example.com/canvasback/examples/internal/database"
	"example.com/canvasback/exports"
	"example.com/canvasback/symbols"
)

func main() {
	showVersion := flag.Bool("version", false, "print the version")
	health := flag.Bool("health", false, "check that the server with these variables is ready")
	backup := flag.String("backup", "", "copy the SQLite database to the new file `FILE`, also while a server runs")
	assign := flag.Bool("assign-tenant", false, "give the records of the tenant in the argument FROM to the one in TO")
	hash := flag.Bool("hash-admin-key", false, "read an admin key and print a hash for ADMIN_API_KEY")
	flag.Usage = func() {
		out := flag.CommandLine.Output()
		fmt.Fprintln(out, "standalone runs Canvasback as a server, configured by environment variables.")
		fmt.Fprint(out, new(config).variables().Usage(), "\nFlags:\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *assign && flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "standalone: -assign-tenant requires two arguments, FROM and TO")
		os.Exit(2)
	}
	if !*assign && flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "standalone: unexpected argument %q; -h lists flags and environment variables\n", flag.Arg(0))
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // restore the default: a second signal ends the process
	c, err := readConfig(os.LookupEnv)
	switch {
	case *showVersion:
		fmt.Println(version())
		return
	case *hash:
		err = hashAdminKey(os.Stdin, os.Stdout, os.Stderr)
	case err != nil:
	case *health:
		err = c.checkHealth()
	case *backup != "":
		err = database.BackUp(ctx, c.databaseURL, *backup)
	case *assign:
		err = c.assignTenant(ctx, flag.Arg(0), flag.Arg(1))
	default:
		if err = run(ctx, os.LookupEnv, os.Environ(), os.Stdout, os.Stderr); err != nil && ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, "standalone: stopped by a signal while starting:", err)
			return
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "standalone:", err)
		os.Exit(1)
	}
}

// assignTenant gives the folders, the trash, the exports and the links of a tenant to
// another. After an error it can be repeated.
func (c *config) assignTenant(ctx context.Context, from, to string) error {
	db, err := database.Open(ctx, c.databaseURL, &c.postgres)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Migrate(ctx, slog.Default()); err != nil {
		return err
	}
	library, err := symbols.NewService(db.Symbols(), nil)
	if err != nil {
		return err
	}
	registered, err := exports.NewService(db.Exports(), nil)
	if err != nil {
		return err
	}
	return errors.Join(library.Tenant(from).AssignTenant(ctx, to), registered.Tenant(from).AssignTenant(ctx, to))
}

// release is the version in CHANGELOG.md.
const release = "0.1.0"

// version returns the release and the version of Go. go version -m also shows the commit.
func version() string { return release + " " + runtime.Version() }

// hashAdminKey prints a bcrypt hash of the line that it reads. It prompts for it if in is
// a terminal.
func hashAdminKey(in *os.File, out, prompt io.Writer) error {
	if info, err := in.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprint(prompt, "Admin key: ")
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("admin key: %w", err)
	}
	key := strings.TrimSpace(line)
	if key == "" {
		return errors.New("no admin key on standard input")
	}
	if isShort(key) {
		fmt.Fprintf(prompt, "warning: an admin key of less than %d characters can be guessed\n", minAdminKey)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(key), bcrypt.DefaultCost)
	if err != nil {
		return fmt.Errorf("admin key: %w", err)
	}
	fmt.Fprintln(out, string(hash))
	return nil
}
