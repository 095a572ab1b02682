package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/canvasback/storage/postgres"
)

// postgresConfig returns the configuration of the connection pool. The error has no
// part of the URL.
func postgresConfig(databaseURL string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil || strings.Contains(config.ConnConfig.Host, "@") { // behind an @ of the password
		return nil, errors.New("is not a valid postgres URL; in a password write @ as %40, / as %2F and % as %25")
	}
	postgres.ConfigurePool(config)
	return config, nil
}

func openPostgres(ctx context.Context, databaseURL string, options *postgres.Options) (*Database, error) {
	config, err := postgresConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
			err = connect.Unwrap() // without the user and the database
		}
		lines := slices.Compact(strings.Split(err.Error(), "\n")) // an attempt with TLS repeats them
		return nil, errors.New("open PostgreSQL: " + strings.Join(lines, "; "))
	}
	db, err := postgres.New(pool, options)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &Database{
		Storage: db,
		Name:    fmt.Sprintf("PostgreSQL on %s", config.ConnConfig.Host),
		PoolStats: func() sql.DBStats {
			s := pool.Stat()
			return sql.DBStats{
				MaxOpenConnections: int(s.MaxConns()),
				OpenConnections:    int(s.TotalConns()),
				InUse:              int(s.AcquiredConns()),
				WaitCount:          s.EmptyAcquireCount(),
				WaitDuration:       s.EmptyAcquireWaitTime(),
			}
		},
		Fence: db.FenceState,
		Close: pool.Close,
	}, nil
}
