package main

import (
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestPostgresConfig_waitsForAConnectionAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for address, want := range map[string]time.Duration{
		"postgres://db.example/canvas":                   2 * time.Second,
		"postgres://db.example/canvas?connect_timeout=7": 7 * time.Second,
	} {
		config, err := postgresConfig(address)
		is.NoErr(err)
		is.Equal(config.ConnConfig.ConnectTimeout, want)
	}
}
