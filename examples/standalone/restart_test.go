package main

import (
	"strings"
	"testing"

	"github.com/matryer/is"
)

func TestRestart_KeepsRecordsAndReusesNoID(t *testing.T) {
	t.Parallel()
	eachPersistentDatabase(t, func(t *testing.T, databaseURL string) {
		is := is.New(t)
		env := map[string]string{"DATABASE_URL": databaseURL, "DEMO": "false", "ADMIN_API_KEY": firstAdminKey + ", " + secondAdminKey, "BASE_PATH": ""}
		admin := []string{"x-admin-key", secondAdminKey}
		s := startServer(t, env)
		issued := s.sendJSON(201, "POST", "/admin/api-keys", `{"name":"k"}`, admin...)
		raw := issued["apiKey"].(string)
		client := []string{"x-api-key", raw}
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders", `{"name":"A"}`, client...)["id"], 1.0)
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders", `{"name":"B"}`, client...)["id"], 2.0)
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders/1/symbols", `{"name":"x","type":"a/b","data":"ü"}`, client...)["id"], 1.0)
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders/1/symbols", `{"name":"y","type":"a/b","data":"z"}`, client...)["id"], 2.0)
		s.sendJSON(200, "DELETE", "/symbol/folders/2", "", client...)
		s.sendJSON(200, "DELETE", "/symbol/symbols/2", "", client...)
		s.sendJSON(201, "POST", "/admin/api-keys", "", admin...)
		s.sendJSON(200, "DELETE", "/admin/api-keys/2", "", admin...)
		used := s.sendJSON(200, "GET", "/admin/api-keys/1", "", admin...)["lastUsedAt"]
		is.True(used != nil)
		is.NoErr(s.stop())

		s = startServer(t, env)
		is.Equal(s.sendJSON(200, "GET", "/admin/api-keys/1", "", admin...)["lastUsedAt"], used) // written at shutdown
		is.Equal(s.sendJSON(200, "GET", "/symbol/symbols/1", "", client...)["data"], "ü")
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders", `{"name":"B"}`, client...)["id"], 3.0)
		is.Equal(s.sendJSON(201, "POST", "/symbol/folders/1/symbols", `{"name":"y","type":"a/b","data":"z"}`, client...)["id"], 3.0)
		is.Equal(s.sendJSON(201, "POST", "/admin/api-keys", "", admin...)["key"].(map[string]any)["id"], 3.0)
		is.True(!strings.Contains(s.log.String(), raw[10:]))
	})
}
