package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/matryer/is"
)

func TestServer_ConcurrentWrites(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, databaseURL string) {
		is := is.New(t)
		s := startServer(t, map[string]string{"DATABASE_URL": databaseURL, "PROTECT_ROUTES": "false", "DEMO": "false"})
		countStatuses := func(n int, f func(i int) int) map[int]int {
			statuses := make([]int, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() { statuses[i] = f(i) })
			}
			wg.Wait()
			counts := map[int]int{}
			for _, status := range statuses {
				counts[status]++
			}
			return counts
		}
		for round := range 5 {
			counts := countStatuses(24, func(int) int {
				status, _ := s.send("POST", "/symbol/folders", fmt.Sprintf(`{"name":"same %d"}`, round))
				return status
			})
			is.Equal(counts, map[int]int{201: 1, 409: 23}) // one creation succeeds

			_, body := s.send("GET", "/symbol/folders", "")
			var folders []struct{ ID int64 }
			is.NoErr(json.Unmarshal(body, &folders))
			folder := fmt.Sprintf("/symbol/folders/%d", folders[0].ID)
			var created sync.Map
			counts = countStatuses(24, func(i int) int {
				if i == 12 {
					status, _ := s.send("DELETE", folder, "")
					return status
				}
				status, body := s.send("POST", folder+"/symbols", `{"name":"x","type":"a/b","data":"y"}`)
				if status == 201 {
					var symbol struct{ ID int64 }
					if json.Unmarshal(body, &symbol) == nil {
						created.Store(symbol.ID, true)
					}
				}
				return status
			})
			is.Equal(counts[200], 1)                          // the deletion
			is.Equal(counts[200]+counts[201]+counts[404], 24) // no other status
			created.Range(func(id, _ any) bool {
				status, _ := s.send("GET", fmt.Sprintf("/symbol/symbols/%d", id), "")
				is.Equal(status, 404) // no orphan
				return true
			})
		}
	})
}
