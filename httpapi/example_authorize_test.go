package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"example.com/canvasback/httpapi"
	"example.com/canvasback/keys"
	"example.com/canvasback/storage/memory"
	"example.com/canvasback/symbols"
)

// One tenant per owner: a record of another tenant does not exist.
func ExampleOptions_tenant() {
	db := memory.New()
	library, err := symbols.NewService(db.Symbols(), nil)
	if err != nil {
		log.Fatal(err)
	}
	clientKeys, err := keys.NewService(db.Keys(), nil)
	if err != nil {
		log.Fatal(err)
	}
	api := httpapi.Handler(&httpapi.Options{
		Keys:    clientKeys,
		Symbols: library,
		Tenant:  httpapi.TenantOfOwner,
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
	send("acme", "POST", "/symbol/folders", `{"name":"Valves"}`)
	send("globex", "POST", "/symbol/folders", `{"name":"Valves"}`)
	send("acme", "GET", "/symbol/folders/1", "")
	send("globex", "GET", "/symbol/folders/1", "")
	send("", "GET", "/symbol/folders", "")

	// In Go, a Service is that of a tenant, too.
	page, err := library.Tenant("acme").ListFolders(context.Background(), symbols.Range{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(page.Folders))
	// Output:
	// acme POST /symbol/folders 201
	// globex POST /symbol/folders 201
	// acme GET /symbol/folders/1 200
	// globex GET /symbol/folders/1 404
	//  GET /symbol/folders 403
	// 1
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
