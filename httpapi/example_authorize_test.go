package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/time/rate"

	"example.com/canvasback/exports"
	"example.com/canvasback/exports/fetch"
	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// tenants lets each key access only what belongs to its owner: folders whose names,
// and exports whose sources, begin with a prefix of the owner.
type tenants struct{ symbols *symbols.Service }

var errTenant = &httpapi.DeniedError{Message: "this belongs to another tenant"}

func (t tenants) authorize(r *http.Request, key keys.Key, route string) error {
	id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	switch {
	case key.Owner == "":
		return errTenant
	case strings.HasPrefix(route, "/symbol/folders/{id}"):
		if err := t.folder(r, key, id); err != nil {
			return err
		}
	case strings.HasPrefix(route, "/symbol/symbols/{id}"):
		symbol, err := t.symbols.GetSymbol(r.Context(), id)
		if err != nil {
			return errTenant // also if it does not exist
		}
		if err := t.folder(r, key, symbol.FolderID); err != nil {
			return err
		}
	case route == "/symbol/folders" && r.Method == http.MethodPost, strings.HasPrefix(route, "/viewer/exports/"):
		// The body has the name of the folder or the sources.
	default:
		return errTenant // such as the list of the folders of all tenants
	}
	return t.body(r, key, route)
}

func (t tenants) folder(r *http.Request, key keys.Key, id int64) error {
	folder, err := t.symbols.GetFolder(r.Context(), id)
	if err != nil || !strings.HasPrefix(folder.Name, key.Owner+"/") {
		return errTenant
	}
	return nil
}

// body checks the fields of a request that name a folder or sources.
func (t tenants) body(r *http.Request, key keys.Key, route string) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || strings.HasSuffix(route, "/import") {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var in struct {
		Name          *string `json:"name"`
		FolderID      *int64  `json:"folderId"`
		SourceFileURL *string `json:"sourceFileUrl"`
		Items         []struct {
			SourceFileURL string `json:"sourceFileUrl"`
		} `json:"items"`
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	// Like the API, and unlike encoding/json, this package matches names exactly and
	// rejects duplicates. Otherwise the API could see other values.
	if err := json.Unmarshal(body, &in); err != nil {
		return errTenant
	}
	if in.FolderID != nil {
		if err := t.folder(r, key, *in.FolderID); err != nil {
			return err
		}
	}
	folder := route == "/symbol/folders" || route == "/symbol/folders/{id}"
	if folder && in.Name != nil && !strings.HasPrefix(*in.Name, key.Owner+"/") {
		return errTenant
	}
	var sources []string
	if in.SourceFileURL != nil {
		sources = append(sources, *in.SourceFileURL)
	}
	for _, item := range in.Items {
		sources = append(sources, item.SourceFileURL)
	}
	for _, source := range sources {
		if !strings.HasPrefix(strings.TrimSpace(source), "https://"+key.Owner+".cad.example/") {
			return errTenant
		}
	}
	return nil
}

// One tenant per owner.
func ExampleOptions_authorizeTenants() {
	db := memory.New()
	library, err := symbols.NewService(db.Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	clientKeys, err := keys.NewService(db.Keys(), nil)
	if err != nil {
		log.Fatal(err)
	}
	fetcher, err := fetch.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	files, err := exports.NewService(db.Exports(), &exports.Options{Openers: []exports.Opener{fetcher}})
	if err != nil {
		log.Fatal(err)
	}
	api := httpapi.Handler(&httpapi.Options{
		Keys:      clientKeys,
		Symbols:   library,
		Exports:   files,
		Authorize: tenants{library}.authorize,
	})
	send := func(owner, method, path, body string) {
		issued, err := clientKeys.Create(context.Background(), keys.Fields{Owner: &owner})
		if err != nil {
			log.Fatal(err)
		}
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("x-api-key", string(issued.Raw))
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(owner, method, path, w.Code)
	}
	send("acme", "POST", "/symbol/folders", `{"name":"acme/Valves"}`)
	send("acme", "POST", "/symbol/folders", `{"name":"globex/Valves"}`)
	send("acme", "GET", "/symbol/folders/1", "")
	send("globex", "GET", "/symbol/folders/1", "")
	send("acme", "GET", "/symbol/folders/2", "") // does not exist
	send("acme", "GET", "/symbol/folders", "")
	send("", "POST", "/symbol/folders", `{"name":"/Valves"}`)
	send("globex", "PATCH", "/symbol/folders/1", `{"name":"globex/Valves"}`)
	send("acme", "POST", "/viewer/exports/download", `{"sourceFileUrl":"https://acme.cad.example/a.dwg"}`)
	send("acme", "POST", "/viewer/exports/download-batch", `{"items":[{"sourceFileUrl":"https://globex.cad.example/a.dwg"}]}`)
	// Output:
	// acme POST /symbol/folders 201
	// acme POST /symbol/folders 403
	// acme GET /symbol/folders/1 200
	// globex GET /symbol/folders/1 403
	// acme GET /symbol/folders/2 403
	// acme GET /symbol/folders 403
	//  POST /symbol/folders 403
	// globex PATCH /symbol/folders/1 403
	// acme POST /viewer/exports/download 404
	// acme POST /viewer/exports/download-batch 403
}

// quota limits the requests of each key.
type quota struct {
	limit rate.Limit
	burst int

	mu       sync.Mutex
	limiters map[int64]*rate.Limiter // by key; bounded by the number of keys
}

func (q *quota) authorize(_ *http.Request, key keys.Key, _ string) error {
	q.mu.Lock()
	limiter := q.limiters[key.ID]
	if limiter == nil {
		limiter = rate.NewLimiter(q.limit, q.burst)
		q.limiters[key.ID] = limiter
	}
	q.mu.Unlock()
	if !limiter.Allow() {
		return &httpapi.DeniedError{Message: "the quota of this key is used up", RetryAfter: time.Duration(float64(time.Second) / float64(q.limit))}
	}
	return nil
}

// A quota per key. Several authorizers combine in one function.
func ExampleOptions_authorizeQuota() {
	db := memory.New()
	clientKeys, err := keys.NewService(db.Keys(), nil)
	if err != nil {
		log.Fatal(err)
	}
	library, err := symbols.NewService(db.Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	perKey := &quota{limit: rate.Every(10 * time.Second), burst: 2, limiters: make(map[int64]*rate.Limiter)}
	api := httpapi.Handler(&httpapi.Options{
		Keys:      clientKeys,
		Symbols:   library,
		Authorize: perKey.authorize,
	})
	for _, name := range []string{"first", "second"} {
		issued, err := clientKeys.Create(context.Background(), keys.Fields{Name: &name})
		if err != nil {
			log.Fatal(err)
		}
		for range 3 {
			r := httptest.NewRequest("GET", "/symbol/folders", nil)
			r.Header.Set("x-api-key", string(issued.Raw))
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			fmt.Printf("%s %d %q\n", name, w.Code, w.Header().Get("Retry-After"))
		}
	}
	// Output:
	// first 200 ""
	// first 200 ""
	// first 429 "10"
	// second 200 ""
	// second 200 ""
	// second 429 "10"
}

// The login of a proxy that authenticates users with OpenID Connect, such as
// oauth2-proxy, in place of admin keys.
func ExampleOptions_authenticateAdmin() {
	db := memory.New()
	clientKeys, err := keys.NewService(db.Keys(), nil)
	if err != nil {
		log.Fatal(err)
	}
	admins := map[string]bool{"ann@example.com": true}
	api := httpapi.Handler(&httpapi.Options{
		Keys: clientKeys,
		AuthenticateAdmin: func(r *http.Request) (string, error) {
			// Only the proxy may reach this server, and it must remove the header
			// from the requests of clients.
			switch email := r.Header.Get("X-Forwarded-Email"); {
			case email == "":
				return "", errors.New("no X-Forwarded-Email")
			case !admins[email]:
				return "", &httpapi.DeniedError{Message: email + " is no administrator"}
			default:
				return email, nil
			}
		},
	})
	for _, headers := range []map[string]string{
		{},
		{"X-Forwarded-Email": "bob@example.com"},
		{"X-Forwarded-Email": "ann@example.com"},
		{"X-Forwarded-Email": "ann@example.com", "Sec-Fetch-Site": "cross-site"}, // a page of another origin
	} {
		r := httptest.NewRequest("POST", "/admin/api-keys", nil)
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 401
	// 403
	// 201
	// 403
}
