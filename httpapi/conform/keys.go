package conform

import "strings"

// issued is the response to the creation or rotation of a key.
type issued struct {
	APIKey string `json:"apiKey"`
	Key    record `json:"key"`
}

func (s *suite) createKey(body string) (raw, id string) {
	s.Helper()
	created := decode[issued](s.send("POST", "/admin/api-keys", body).want(201))
	if created.APIKey == "" {
		s.Fatal("POST /admin/api-keys: no apiKey")
	}
	s.deleteLater("/admin/api-keys/" + created.Key.id())
	return created.APIKey, created.Key.id()
}

func testErrors(s *suite) {
	s.send("GET", "/nope", "").wantError(404, "not_found", "")
	notAllowed := s.send("PUT", "/symbol/folders", "{}")
	notAllowed.wantError(405, "method_not_allowed", "")
	notAllowed.wantHeader("Allow", "GET, HEAD, POST")
	s.send("POST", "/symbol/folders", `{"name":`).wantError(400, "invalid_request", "")
	s.send("POST", "/symbol/folders", `{"name":""}`).wantError(400, "invalid_request", "name")
	s.send("POST", "/symbol/folders", `{"name":"a\u0000b"}`).wantError(400, "invalid_request", "name")
	s.send("POST", "/symbol/folders", `{}`, "Content-Type", "text/plain").wantError(415, "unsupported_media_type", "")
	s.send("GET", "/symbol/folders/01", "").wantError(400, "invalid_request", "")
	s.send("GET", "/symbol/folders/9007199254740991", "").wantError(404, "not_found", "")
	s.send("GET", "/symbol/folders?limit=0", "").wantError(400, "invalid_request", "limit")
	s.send("GET", "/nope", "", "X-Request-Id", "conform-1").wantHeader("X-Request-Id", "conform-1")

	document := decode[record](s.send("GET", "/openapi.json", "", "x-api-key", "").want(200))
	if version, _ := document["openapi"].(string); !strings.HasPrefix(version, "3.") {
		s.Errorf("GET /openapi.json: openapi is %v", document["openapi"])
	}
}

func testAdminKey(s *suite) {
	const path = "/admin/api-keys?limit=1"
	s.send("GET", path, "").want(200)
	for _, value := range []string{"", "wrong", s.key, s.options.AdminKey + "x"} {
		s.send("GET", path, "", "x-admin-key", value).wantError(401, "unauthorized", "")
	}
	for _, value := range []string{"", "wrong"} {
		s.send("POST", "/admin/api-keys", `{}`, "x-admin-key", value).wantError(401, "unauthorized", "")
	}
}

func testKeys(s *suite) {
	owner := randomName()
	created := decode[issued](s.send("POST", "/admin/api-keys", `{"name":"Viewer","owner":`+quote(owner)+`,"expiresAt":"2099-12-31","scopes":["symbols:read","app:own"]}`).want(201))
	path := "/admin/api-keys/" + created.Key.id()
	s.deleteLater(path)
	for field, want := range map[string]any{"name": "Viewer", "owner": owner, "isActive": true, "lastUsedAt": nil, "useCount": 0.0, "previousKeyExpiresAt": nil} {
		if got, found := created.Key[field]; !found || got != want {
			s.Errorf("%s of a new key is %v, want %v", field, got, want)
		}
	}
	shown := s.send("GET", path, "").want(200)
	if strings.Contains(shown.body, created.APIKey) {
		s.Error("GET shows the raw key")
	}
	list := s.send("GET", "/admin/api-keys?owner="+strings.ReplaceAll(owner, " ", "+"), "").want(200)
	list.wantBody("[" + shown.body + "]")

	updated := decode[record](s.send("PATCH", path, `{"name":"Other","scopes":null}`).want(200))
	if updated["name"] != "Other" || updated["scopes"] != nil || updated["owner"] != owner {
		s.Errorf("an updated key is %v", updated)
	}
	s.send("PATCH", path, `{"name":1}`).wantError(400, "invalid_request", "name")
	s.send("PATCH", path, `{"scopes":["symbols:read","symbols:read"]}`).wantError(400, "invalid_request", "scopes")
	s.send("DELETE", path, "").want(200)
	for _, method := range []string{"GET", "DELETE"} {
		s.send(method, path, "").wantError(404, "not_found", "")
	}
	s.send("PATCH", path, `{}`).wantError(404, "not_found", "")
	s.send("POST", path+"/rotate", "").wantError(404, "not_found", "")
}

// isProtected reports whether client routes require a key.
func (s *suite) isProtected() bool {
	s.Helper()
	if s.send("GET", "/symbol/folders?limit=1", "", "x-api-key", "").status == 200 {
		s.Log("client routes require no key")
		return false
	}
	return true
}

// testRevocation expects that each change holds for the next request, on any process
// behind the URL.
func testRevocation(s *suite) {
	if !s.isProtected() {
		return
	}
	const list = "/symbol/folders?limit=1"
	path := "/admin/api-keys/" + s.keyID
	with := func(raw string) *response { return s.send("GET", list, "", "x-api-key", raw) }

	with("").wantError(401, "unauthorized", "")
	with("wrong").wantError(401, "unauthorized", "")
	with(s.key+"x").wantError(401, "unauthorized", "")
	with(s.key).want(200)
	token, _ := decode[record](s.send("POST", "/viewer/tokens", `{"scopes":["symbols:read"]}`, "x-api-key", s.key).want(201))["token"].(string)
	with(token).want(200)
	with(token+"x").wantError(401, "unauthorized", "")
	s.send("POST", "/viewer/tokens", "", "x-api-key", token).wantError(403, "forbidden", "")
	s.send("POST", "/symbol/folders", "{}", "x-api-key", token).wantError(403, "forbidden", "")
	s.send("PATCH", path, `{"isActive":false}`).want(200)
	for range 5 { // on several processes
		with(s.key).wantError(403, "forbidden", "")
		with(token).wantError(403, "forbidden", "")
	}
	s.send("PATCH", path, `{"isActive":true}`).want(200)
	with(s.key).want(200)

	first := s.key
	s.key = decode[issued](s.send("POST", path+"/rotate", "").want(200)).APIKey
	for range 5 {
		with(first).wantError(401, "unauthorized", "")
		with(token).wantError(401, "unauthorized", "")
	}
	with(s.key).want(200)
	second := s.key
	s.key = decode[issued](s.send("POST", path+"/rotate", `{"overlapSeconds":600}`).want(200)).APIKey
	with(second).want(200)
	with(s.key).want(200)
	s.send("POST", path+"/rotate", `{"overlapSeconds":null}`).wantError(400, "invalid_request", "overlapSeconds")

	s.send("PATCH", path, `{"expiresAt":"2000-01-01"}`).want(200)
	for _, raw := range []string{second, s.key} {
		with(raw).wantError(403, "forbidden", "")
	}
	s.send("PATCH", path, `{"expiresAt":null}`).want(200)
	with(s.key).want(200)
	s.send("DELETE", path, "").want(200)
	for range 5 {
		with(s.key).wantError(401, "unauthorized", "")
	}
}

func testScopes(s *suite) {
	if !s.isProtected() {
		return
	}
	path := "/admin/api-keys/" + s.keyID
	for _, c := range []struct{ scopes, read, write, download int }{
		{1, 200, 403, 403}, {2, 403, 400, 403}, {4, 403, 403, 400}, {0, 403, 403, 403}, {7, 200, 400, 400},
	} {
		list := []string{}
		for i, scope := range []string{"symbols:read", "symbols:write", "exports:read"} {
			if c.scopes>>i&1 == 1 {
				list = append(list, quote(scope))
			}
		}
		s.send("PATCH", path, `{"scopes":[`+strings.Join(list, ",")+`]}`).want(200)
		s.send("GET", "/symbol/folders?limit=1", "").want(c.read)
		s.send("POST", "/symbol/folders", `{}`).want(c.write)
		s.send("POST", "/viewer/exports/download", `{}`).want(c.download)
	}
}
