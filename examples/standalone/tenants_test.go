package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// folderCount returns how many folders a client key sees.
func (s *server) folderCount(key string) int {
	s.t.Helper()
	return strings.Count(s.sendText(200, "GET", "/symbol/folders", "", "x-api-key", key), `"id":`)
}

func TestTenants_OfOwners(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	databaseURL := "sqlite:" + filepath.Join(t.TempDir(), "canvas.db")
	is.NoErr(startServer(t, map[string]string{"DATABASE_URL": databaseURL}).stop()) // samples of the tenant ""
	variables := []string{"DATABASE_URL=" + databaseURL}
	for _, args := range [][]string{{"-assign-tenant"}, {"-assign-tenant", ""}, {"-assign-tenant", "a", "b", "c"}} {
		is.True(programCommand(t, variables, args...).Run() != nil)
	}
	output, err := programCommand(t, variables, "-assign-tenant", "", "acme").CombinedOutput()
	t.Logf("%s", output)
	is.NoErr(err)

	const adminKey = "an admin key for tests"
	s := startServer(t, map[string]string{"DATABASE_URL": databaseURL, "TENANTS": "owner", "DEMO": "false", "ADMIN_API_KEY": adminKey})
	for owner, count := range map[string]int{"acme": 1, "globex": 0} {
		is.Equal(s.folderCount(s.issueKey(`{"owner":"`+owner+`"}`, adminKey)), count)
	}
	demo := startServer(t, map[string]string{"TENANTS": "owner"})
	_, client := demo.bannerKeys()
	is.Equal(demo.folderCount(client), 1)
}
